package breaker

import "time"

// Suspicion is how strongly a process's own window points to an outage, while it has
// too few calls to trip.
type Suspicion uint8

const (
	// NoSuspicion: the window is under every limit, or calls succeed.
	NoSuspicion Suspicion = iota
	// WeakSuspicion: the window is over a limit with too few calls to trip. In one
	// process it means little; in many at once it means an outage.
	WeakSuspicion
	// StrongSuspicion is a WeakSuspicion with at least five bad calls in a row.
	StrongSuspicion
)

// strongInARow is how many consecutive bad calls make a suspicion strong. If one call
// in a hundred fails at random, five in a row happen once in 10^10 calls: once in 28
// hours in a fleet of a thousand workers with a hundred calls a second each. Three in
// a row would happen 360 times an hour.
const strongInARow = 5

// suspect returns b's suspicion. b.mu is held, and the generation is settled at now.
//
// It needs fewer calls than Config.MinSamples and Config.MinSlow, but only while no
// call succeeds: one slow call among good ones means nothing, and a busy process over
// a limit trips.
func (b *Breaker) suspect(now time.Duration) Suspicion {
	g := b.generation
	if g == nil || b.state != Closed || b.settings.Mode == Off {
		return NoSuspicion
	}
	inARow := int32(g.bad)
	if g.hung > 0 && g.lastGood < now-b.settings.Latency {
		// Calls that began after the hanging one have not ended either.
		inARow += g.inFlight
	}
	if inARow == 0 {
		return NoSuspicion
	}
	e := g.evidence()
	if _, over := b.settings.Over(e); !over {
		return NoSuspicion
	}
	if inARow < strongInARow {
		return WeakSuspicion
	}
	return StrongSuspicion
}

// Over reports whether e is over a limit with any number of calls, and which. See
// [Config.Judge].
func (c Config) Over(e Evidence) (Reason, bool) {
	c.MinSlow = 1
	return c.judge(&e, 1)
}
