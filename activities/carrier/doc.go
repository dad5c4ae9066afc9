// Package carrier is a parcel carrier's API as Temporal activities: three tools
// of one dependency. Its delivery network has regions that fail independently.
//
// The tools know nothing of circuit breakers. What they do for one is what any
// well-behaved tool does: every call has a limit of its own, an error says
// whether the carrier refused or failed, and a synthetic call says that it is one.
package carrier
