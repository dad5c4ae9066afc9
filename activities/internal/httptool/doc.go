// Package httptool makes the HTTP calls of the example tools: one JSON exchange with a
// timeout and a size limit. Each failure becomes an error that Temporal's retry policy
// and a circuit breaker can use.
package httptool
