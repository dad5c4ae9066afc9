// Package bench compares package breaker with its peers by what a call costs, in
// one run on one machine. Absolute figures say little about another machine; the
// ratios say more:
//
//	go run ./ratios
//
// The peers stand in a module of their own, so that they come with nothing else.
package bench
