// Package breaker is a circuit breaker for one dependency in one region. It does not
// use Temporal and does no I/O. Its only goroutine is the one of [Registry.Run],
// which its caller starts.
//
//	registry := breaker.NewRegistry(breaker.SystemClock(), nil)
//	go registry.Run(ctx, 250*time.Millisecond)
//	b := registry.Get(breaker.Key{Dependency: "carrier-api", Region: "eu-west"}, breaker.Config{})
//
//	permit, refusal := b.Allow(breaker.Call{Tool: "get_delivery_status", Attempt: 1})
//	if refusal != nil {
//		return fmt.Errorf("%v until %v", refusal.State, refusal.RetryAt)
//	}
//	err := call()
//	permit.Done(outcomeOf(err)) // breaker.Success, Failure or Ignored
//
// # States
//
// A [Breaker] moves between four states by itself. Operators can force two more:
//
//	closed         calls pass and are counted
//	open           calls are refused until the cooldown ends
//	half-open      calls are still refused; only probes reach the dependency
//	recovering     a growing share of calls passes and is counted by itself: the ramp
//	forced-open    calls are refused until the operator's decision expires
//	forced-closed  calls pass until the operator's decision expires
//
// A breaker trips when the failure rate or a latency quantile passes its limit over a
// rolling window. A hanging call counts as slow while it hangs, so the breaker trips
// before the first timeout.
//
// # Rules
//
//   - A rate or a latency equal to its limit does not trip.
//   - The failure rule applies to the whole window and to its newest part,
//     [Config].FastWindow. Either can trip.
//   - A success can complete the minimum of samples, and so trip the breaker.
//   - Refused calls are neither samples nor latencies.
//   - Each transition starts a fresh window. Calls that began before it are not
//     counted, so failures that arrive while open have no effect.
//   - A call that exceeds its time limit is a failure. A panic is one unless
//     Config.IgnorePanics is set. A rate-limited call (429) is ignored unless
//     Config.FailOnRateLimit is set. Its Retry-After can extend a cooldown up to
//     Config.MaxCooldown: see [Breaker.HoldOff].
//   - A call cancelled by its caller is no sample, except when it had already passed
//     the latency threshold. Then it is slow.
//   - A dependency without a probe needs Config.NoProbe. The cooldown is then
//     followed by the ramp. A probe that gets an authentication error has failed.
//   - A verdict of open that is not renewed ends by itself, some time after its
//     announced retry time.
//
// # Two counters decide a quantile
//
// By the nearest-rank definition, the q-quantile of n samples is the ceil(q·n)-th
// smallest. It is over a threshold exactly when fewer than ceil(q·n) samples are at or
// under the threshold, which means
//
//	slow > n - ceil(q·n) = floor((1-q)·n)
//
// So the number of calls and the number of slow calls decide "p99 > 5 s" exactly,
// without a histogram or sorting. The histogram in [Snapshot] is only for display.
//
// With fewer than 100 samples the p99 is the maximum, so one slow call would trip the
// breaker. Config.MinSlow prevents that.
//
// # Cost of a call
//
// A successful call while closed reads the clock twice and does two
// compare-and-swaps. A refused call does one. Neither allocates or takes a lock. The
// lock is taken for failures, for slow calls, and for the first call after a slice of
// time has ended. It is held for a few hundred nanoseconds, for any number of samples.
//
// # With and without a fleet
//
// A breaker needs no fleet: [Registry.Run] ends every state when its time is over. When
// a fleet shares one verdict, [Breaker.Apply] sets it, and the breaker waits for the
// next one. If that is overdue, the breaker moves on by itself. So a lost connection
// to the fleet cannot keep it open.
package breaker
