// Package member is the part of the fleet that runs in each worker process.
//
// A [Reporter] decides when the process reports and what: a tripped breaker, a
// suspicion or a hint, the answer to a poll, the calls of a ramp. A [Watcher]
// waits on the board and hands each new table to the process.
//
// Unlike the package fleet, this one uses clocks, random numbers and a Temporal
// client. Workflows must not call it.
package member
