// Package orders is an example of a tool: a shop's order lookup as a Temporal activity.
// It is a dependency of its own, which keeps working while the carrier's API is down.
//
//	tools := &orders.Tools{BaseURL: "https://orders.example"}
//	tools.Register(w) // w is a worker.Worker
package orders
