// Package interceptor puts a circuit breaker in front of a Temporal worker's
// tool activities. One plugin is all that a worker needs:
//
//	plugin, err := interceptor.NewPlugin(c, interceptor.Config{
//		Region: "eu-west",
//		Dependencies: []interceptor.Dependency{{
//			Name:    "carrier-api",
//			Tools:   interceptor.Tools("get_delivery_status", "get_tracking_events"),
//			Breaker: breaker.Config{Latency: 5 * time.Second},
//			Probe:   interceptor.Synthetic("get_delivery_status", carrier.Query{TrackingID: "PROBE-0001", Region: "eu-west"}),
//		}},
//	})
//	w := worker.New(c, "tools", worker.Options{Plugins: []worker.Plugin{plugin}})
//
// The plugin brings the activity interceptor, a small control worker on a task
// queue of its own for the outage, probe and board workflows, and the wait by
// which this process hears the fleet's verdicts.
package interceptor
