// Package bench compares the cost of a call in package breaker with that in other
// libraries, on one machine in one run. The ratios carry over to other machines
// better than the absolute figures:
//
//	go run ./ratios
//
// It is a separate module, so that no other module depends on those libraries.
package bench
