package interceptor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolerror"
)

// A worker needs one plugin.
func ExampleNewPlugin() {
	c, err := client.NewLazyClient(client.Options{})
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
	// w.Run(worker.InterruptCh()) starts the worker.

	b, err := plugin.Breaker("carrier-api", "eu-west")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Key(), b.Snapshot().State)
	// Output: carrier-api/eu-west closed
}

// The error lists every mistake with its field.
func ExampleNewPlugin_mistakes() {
	_, err := interceptor.NewPlugin(nil, interceptor.Config{
		Region:       "eu west",
		Dependencies: []interceptor.Dependency{{Name: "carrier-api"}},
	})
	fmt.Println(err)
	// Output:
	// toolbreaker configuration:
	// Region: "eu west" must be made of letters, digits and the characters . _ - : @ (or set Region on each dependency)
	// Dependencies[0] (carrier-api).Tools: at least one activity type is needed
	// Dependencies[0] (carrier-api).Probe: is missing; use Synthetic with a real tool and harmless arguments, or NoProbe()
}

// How the end of an activity counts for the dependency.
func ExampleClassify() {
	ctx := context.Background()
	for _, err := range []error{
		nil,
		toolerror.FromResponse(&http.Response{StatusCode: http.StatusServiceUnavailable}),
		toolerror.FromResponse(&http.Response{StatusCode: http.StatusNotFound}),
		toolerror.FromResponse(&http.Response{StatusCode: http.StatusTooManyRequests}),
		context.DeadlineExceeded,
		errors.New("unknown"),
	} {
		fmt.Println(interceptor.Classify(ctx, nil, err))
	}
	// Output:
	// success
	// failure
	// success
	// ignored
	// failure
	// failure
}

// A dependency's Classify comes before the rules.
func ExampleFirstOf() {
	type answer struct{ Status int }
	classify := interceptor.FirstOf(
		interceptor.ByErrorType(map[string]breaker.Outcome{"Maintenance": breaker.Failure}),
		interceptor.ByResult(func(a answer) (breaker.Outcome, bool) { return breaker.Failure, a.Status >= 500 }),
	)
	fmt.Println(classify(nil, temporal.NewNonRetryableApplicationError("closed", "Maintenance", nil)))
	fmt.Println(classify(answer{Status: 503}, nil))
	_, decided := classify(answer{Status: 200}, nil)
	fmt.Println("decided:", decided)
	// Output:
	// failure true
	// failure true
	// decided: false
}

// The region of a call comes from its arguments, also if they are a model's JSON.
func ExampleRegionOf() {
	region := interceptor.RegionOf(func(q carrier.Query) string { return q.Region })
	fmt.Println(region([]any{carrier.Query{TrackingID: "PKG-1", Region: "eu-west"}}))
	fmt.Println(region([]any{json.RawMessage(`{"tracking_id": "PKG-1", "region": "us-east"}`)}))
	// Output:
	// eu-west
	// us-east
}
