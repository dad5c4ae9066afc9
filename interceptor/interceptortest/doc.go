// Package interceptortest puts the circuit breaker into the SDK's test environments, for
// tests of agents without a server:
//
//	guard := interceptortest.New(t, config)
//	env.SetWorkerOptions(guard.Options())
//	env.RegisterActivityWithOptions(fakeStatus, activity.RegisterOptions{Name: "get_delivery_status"})
//	guard.Open("carrier-api", "eu-west")
//	env.ExecuteWorkflow(SupportTicket, ticket)
//
// # Rules
//
//   - Register a function for each tool, or mock the tool with a function:
//     env.OnActivity(…).Return(func …).
//   - A mock that returns plain values bypasses all interceptors, and so the breaker. A test
//     in which the breaker saw no call of a guarded tool fails.
//   - The breaker decides by itself. There are no workflows and no fleet.
//   - Breakers use the real clock, not the time of the environment.
package interceptortest
