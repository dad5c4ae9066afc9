package interceptor_test

import (
	"log"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
)

// On a worker, the plugin is all there is to write.
func ExampleNewPlugin() {
	c, err := client.Dial(client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	plugin, err := interceptor.NewPlugin(c, interceptor.Config{
		Region: "eu-west",
		Dependencies: []interceptor.Dependency{{
			Name:    "carrier-api",
			Tools:   interceptor.Tools("get_delivery_status", "get_tracking_events", "create_return_label"),
			Breaker: breaker.Config{Latency: 5 * time.Second},
			Probe:   interceptor.Synthetic("get_delivery_status", carrier.Query{TrackingID: "PROBE-0001", Region: "eu-west"}),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	w := worker.New(c, "tools", worker.Options{Plugins: []worker.Plugin{plugin}})
	(&carrier.Tools{BaseURL: "https://api.carrier.example"}).Register(w)
	if err := w.Run(worker.InterruptCh()); err != nil {
		log.Fatal(err)
	}
}
