package breaker

import "time"

// Suspicion is how much a process's own window speaks against a dependency
// before it may say so alone.
type Suspicion uint8

const (
	// Unsuspicious is a window under every limit, or one in which calls end well.
	Unsuspicious Suspicion = iota
	// Whisper is a window over a limit that holds too few calls to trip: of one
	// process it means little, of many it is an outage.
	Whisper
	// Suspicious is a Whisper of suspiciousInARow calls in a row.
	Suspicious
)

// suspiciousInARow is how many calls of a thin process go wrong in a row before
// it speaks up by itself. Where one call in a hundred fails for no reason, five
// in a row happen once in 10^10 calls: once in 28 hours to a fleet of a thousand
// workers with a hundred calls a second each. Three would cry 360 times an hour.
// A process does not wait for it: its whispers count with those of the others.
const suspiciousInARow = 5

// suspect tells how much b's window speaks against its dependency. b.mu is
// held, and the generation settled at now.
//
// A limit counts as passed whatever Config.MinSamples and Config.MinSlow say,
// and only while nothing ends well any more: a straggler among good calls is no
// sign, and a busy process passes no limit without tripping.
func (b *Breaker) suspect(now time.Duration) Suspicion {
	g := b.generation
	if g == nil || b.state != Closed || b.settings.Mode == Off {
		return Unsuspicious
	}
	inARow := int32(g.bad)
	if g.hung > 0 && g.lastGood < now-b.settings.Latency {
		// What began after a call that hangs has not ended either.
		inARow += g.inFlight
	}
	if inARow == 0 {
		return Unsuspicious
	}
	e := g.evidence()
	if _, over := b.settings.Over(e); !over {
		return Unsuspicious
	}
	if inARow < suspiciousInARow {
		return Whisper
	}
	return Suspicious
}

// Over tells whether e is over a limit, however few calls it holds. See
// [Config.Judge].
func (c Config) Over(e Evidence) (Reason, bool) {
	c.MinSlow = 1
	return c.judge(&e, 1)
}
