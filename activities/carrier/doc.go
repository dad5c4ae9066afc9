// Package carrier is an example of tools: a parcel carrier's API as three Temporal
// activities that share one dependency. Its regions fail independently.
//
//	tools := &carrier.Tools{BaseURL: "https://api.carrier.example", Region: carrier.RegionEUWest}
//	tools.Register(w) // w is a worker.Worker
//
// The tools know nothing of circuit breakers. They follow rules that suit any tool:
//
//   - each call has a timeout of its own
//   - an error tells a rejected call from a failed one
//   - a synthetic call is marked with the header X-Call-Kind: probe
package carrier
