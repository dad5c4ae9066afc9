// Package member is the part of the fleet that runs in each worker process. The plugin
// of package interceptor uses it; other code does not need it.
//
// A [Reporter] decides what the process reports and when: a tripped breaker, a
// suspicion or a hint, the answer to a poll, the calls of a ramp. A [Watcher] waits
// on the board and passes each new table to the process.
//
// Unlike package fleet, this package uses clocks, random numbers and a Temporal
// client. Workflows must not call it.
package member
