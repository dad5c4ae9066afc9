// Package breaker is a circuit breaker for one dependency in one region. It
// knows nothing of Temporal, does no I/O and starts no goroutine of its own
// but [Registry.Run], which its caller owns.
//
// A [Breaker] moves between four states:
//
//	closed      calls pass, outcomes are counted
//	open        calls are refused at once; the cooldown runs
//	half-open   calls are still refused; only synthetic probes touch the dependency
//	recovering  calls pass by a growing share, judged on their own outcomes alone
//
// It trips on a failure rate or on a latency quantile over a rolling window.
// A call that hangs counts as slow while it hangs, so that a dependency which
// swallows every call is found before the first timeout fires.
//
// # Why counting decides a quantile
//
// By the nearest-rank definition the q-quantile of n samples is the
// ceil(q·n)-th smallest. It lies over a threshold exactly when fewer than
// ceil(q·n) samples are at or under the threshold, that is when
//
//	slow > n - ceil(q·n) = floor((1-q)·n)
//
// Two counters therefore decide "p99 > 5 s" exactly: how many calls there were
// and how many of them were slow. No histogram, no sorting, no estimate.
//
// # Alone and in a fleet
//
// A breaker is complete by itself: every state is left by time alone. When a
// fleet shares one verdict, [Breaker.Apply] sets what the fleet decided; the
// breaker then waits for the next word, and goes on alone some time after that
// word was due. So losing touch with the fleet can never wedge it.
package breaker
