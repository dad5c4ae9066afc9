// Package httptool is the HTTP half of the example tools: one bounded JSON
// exchange, with every way it can end turned into an error that Temporal's retry
// policy and a circuit breaker both understand.
package httptool
