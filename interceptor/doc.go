// Package interceptor puts a circuit breaker in front of the tool activities of a
// Temporal worker. A worker needs one plugin:
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
// The plugin adds the activity interceptor, and runs a small control worker for the
// outage, probe and board workflows. It waits on the board for the fleet's verdicts.
//
// # Rules
//
//   - There is one breaker per dependency and region. Tools that call the same API belong
//     to one dependency.
//   - A refused call ends at once. An activity whose result type is toolcall.Result gets
//     the refusal as a value, any other a non-retryable application error of type
//     toolcall.DependencyUnavailable. With [Wait], Temporal retries the call later.
//   - [Classify] decides how an outcome counts. A dependency's own Classify comes first.
//   - A call fails at its attempt's deadline, not when its function returns.
//   - A refusal must reach the server unchanged. Interceptors of worker.Options run
//     inside the breaker's. Those of the client run outside it, and must not wrap errors.
//   - A worker that fails alone is quarantined: its refused calls go to other workers,
//     and it polls slowly.
//   - A worker that cannot reach Temporal decides by itself.
//   - Completing an activity asynchronously needs [Plugin.CompleteActivity].
//
// Package interceptortest is for tests of agents.
package interceptor
