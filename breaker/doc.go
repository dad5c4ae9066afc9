// Package breaker is a circuit breaker for one dependency in one region. It
// knows nothing of Temporal, does no I/O and starts no goroutine of its own
// but those of [Registry.Run], which its caller owns.
//
// A [Breaker] moves between four states by itself, and is held in two more by
// operators:
//
//	closed         calls pass, outcomes are counted
//	open           calls are refused at once; the cooldown runs
//	half-open      calls are still refused; only synthetic probes touch the dependency
//	recovering     calls pass by a growing share, judged on their own outcomes alone
//	forced-open    calls are refused until the decision expires
//	forced-closed  calls pass until the decision expires, whatever is counted
//
// It trips on a failure rate or on a latency quantile over a rolling window.
// A call that hangs counts as slow while it hangs, so that a dependency which
// swallows every call is found before the first timeout fires.
//
// # What decides
//
// These rules hold wherever a choice had to be made:
//
//   - The rate must be over its limit, not at it; likewise the latency.
//   - The failure rule is judged over the whole window and over its newest part,
//     [Config].FastWindow; whichever is over, trips.
//   - A success can complete the minimum of samples, and so decide.
//   - Refused calls are neither samples nor latencies.
//   - Each transition starts a fresh window: what was seen before it decides
//     nothing after it. Failures that land while open move nothing.
//   - A call whose time limit expired is a failure. So is a panic, unless
//     Config.IgnorePanics. A rate-limited call (429) says nothing, unless
//     Config.FailOnRateLimit; its Retry-After only ever prolongs a wait, within
//     Config.MaxCooldown: see [Breaker.HoldOff].
//   - A call that the caller gave up leaves no sample, unless it had already
//     passed the latency threshold: then it was slow.
//   - A dependency without a probe says so by Config.NoProbe; the cooldown then
//     leads into the ramp. A probe that meets an authentication error has failed.
//   - A verdict of open that nobody renews ends by itself some time after its
//     announced retry time.
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
// and how many of them were slow. No histogram, no sorting, no estimate. The
// histogram in [Snapshot] is for people.
//
// Under 100 samples the p99 is the maximum, and one straggler would trip it.
// Config.MinSlow is the second condition that keeps it from doing so.
//
// # What a call costs
//
// A good call while closed costs two readings of the clock and two
// compare-and-swaps, a refused call one of them; neither allocates or
// takes a lock. What may decide something (a failure, a slow call, the first
// call after a slice of the window or of the calls in flight has ended) takes
// the breaker's lock for a few hundred nanoseconds, however many samples the
// window holds.
//
// # Alone and in a fleet
//
// A breaker is complete by itself: every state is left by time alone, at the
// ticks of [Registry.Run]. When a fleet shares one verdict, [Breaker.Apply] sets
// what the fleet decided; the breaker then waits for the next word, and goes on
// alone some time after that word was due. So losing touch with the fleet can
// never wedge it.
package breaker
