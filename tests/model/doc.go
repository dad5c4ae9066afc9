// Package model tests package breaker against a reference implementation. The
// reference is simple and slow: it keeps every sample and sorts all of them for
// each decision. Random sequences of calls, outcomes, clock moves, ticks, verdicts,
// operators' decisions and configuration changes run on both, which must never
// differ.
//
//	go test ./... -rapid.checks=100000
//
// It is a separate module, so that package breaker does not depend on rapid or on a
// YAML library.
package model
