// Package model proves package breaker against a reference that is written to
// be read, not to be fast: it keeps every sample, sorts, and looks at all of
// them for each decision. Random sequences of calls, outcomes, clock moves,
// ticks, verdicts, operators' decisions and configuration changes drive both;
// they never differ.
//
//	go test ./... -rapid.checks=100000
//
// It is a module of its own, as is what needs a YAML library, so that neither
// comes with package breaker.
package model
