package breaker

import "time"

// Suspicion is how strongly a process's own window speaks against a dependency
// while it holds too few calls to trip.
type Suspicion uint8

const (
	// NoSuspicion is a window under every limit, or one in which calls succeed.
	NoSuspicion Suspicion = iota
	// WeakSuspicion is a window over a limit with too few calls to trip. In one
	// process it means little; in many at once it is an outage.
	WeakSuspicion
	// StrongSuspicion is a WeakSuspicion with strongInARow bad calls in a row.
	StrongSuspicion
)

// strongInARow is how many bad calls in a row make a suspicion strong. Where one
// call in a hundred fails for no reason, five in a row happen once in 10^10 calls:
// once in 28 hours in a fleet of a thousand workers with a hundred calls a second
// each. Three would happen 360 times an hour.
const strongInARow = 5

// suspect tells how strongly b's window speaks against its dependency. b.mu is
// held, and the generation settled at now.
//
// A limit counts as passed with fewer calls than Config.MinSamples and
// Config.MinSlow, but only while no call succeeds: one slow call among good ones
// means nothing, and a busy process over a limit trips.
func (b *Breaker) suspect(now time.Duration) Suspicion {
	g := b.generation
	if g == nil || b.state != Closed || b.settings.Mode == Off {
		return NoSuspicion
	}
	inARow := int32(g.bad)
	if g.hung > 0 && g.lastGood < now-b.settings.Latency {
		// Calls that began after a hanging one have not ended either.
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

// Over tells whether e is over a limit, however few calls it holds. See
// [Config.Judge].
func (c Config) Over(e Evidence) (Reason, bool) {
	c.MinSlow = 1
	return c.judge(&e, 1)
}
