package breaker

import (
	"sync/atomic"
	"time"
)

// generation holds what a breaker counts between two transitions. A transition
// replaces the whole generation, so the new window is empty without clearing. An
// outcome is late if its permit belongs to an older generation.
type generation struct {
	// lockFrom is the time from which the end of a successful call takes the lock. That
	// is when the current slice ends or a call may begin to hang, and 0 while any end may
	// trip. Before lockFrom a fast success cannot trip: it lowers every rate, and no
	// rule lacks only samples.
	lockFrom atomic.Int64

	// Every call reads lockFrom. Breaker.mu guards the rest of its cache line and the
	// fields below. The fields that calls write without the lock come last.

	rings []*ring
	// ended counts the samples of this generation, including expired ones.
	ended int
	// inFlight and hung are the counts of the last settling.
	inFlight, hung int32
	// lastGood is when a call was last known to have succeeded. bad is how many have
	// failed or been slow since, up to strongInARow.
	lastGood time.Duration
	// now is the latest time that a caller has brought.
	now    time.Duration
	window window
	// reseeds is how often the seed of the cells was changed.
	reseeds uint16
	bad     uint8

	// collisions counts lost races for a word of the ring.
	collisions atomic.Uint32
	latencies  histogram
}

func newGeneration(now time.Duration, s *settings) *generation {
	g := &generation{window: newWindow(now, s), lastGood: now - s.Latency - 1}
	g.latencies.turn = now + s.Window/2
	g.ring(s.Latency)
	return g
}

// ring returns the ring for calls of this threshold.
func (g *generation) ring(latency time.Duration) *ring {
	class := latencyClass(latency)
	for _, r := range g.rings {
		if r.class == class {
			return r
		}
	}
	r := newRing(class)
	g.rings = append(g.rings, r)
	// This ring's slots may be narrower than those that lockFrom was computed from.
	g.lockFrom.Store(0)
	return r
}

// count records samples in the current slice.
func (g *generation) count(c Counts) {
	if c.Samples > 0 {
		g.window.record(c)
		g.ended += c.Samples
	}
}

// good records that a call has succeeded.
func (g *generation) good(now time.Duration) { g.bad, g.lastGood = 0, now }

// see returns the latest time known. Callers read the clock before they take the
// lock, some of them long before. At such an old time, words in use would look as if
// they were whole turns of the ring ahead.
func (g *generation) see(now time.Duration) time.Duration {
	g.now = max(g.now, now)
	return g.now
}

// settle brings window, inFlight, hung and latencies up to now. Successes since the
// last settling count in the slice that was current until now.
func (g *generation) settle(now time.Duration) {
	now = g.see(now)
	g.inFlight, g.hung = 0, 0
	for _, r := range g.rings {
		n := r.settle(now)
		if n.ended > 0 {
			g.good(now)
		}
		g.count(Counts{Samples: n.ended})
		g.inFlight += int32(n.calls)
		g.hung += int32(n.hung)
	}
	g.window.advance(now)
	g.latencies.rotate(now, g.window.width*windowSlices)
}

// shut is the last settling. No permit counts in g afterwards. It returns how many
// calls are still in flight.
func (g *generation) shut(now time.Duration) (abandoned int) {
	g.settle(now)
	for _, r := range g.rings {
		ended, calls := r.shut()
		g.count(Counts{Samples: ended})
		abandoned += calls
	}
	return abandoned
}

// retire shuts g if it is empty, and returns whether it did. A call that begins
// meanwhile keeps g.
func (g *generation) retire() bool {
	if g.inFlight > 0 || g.window.total.Samples > 0 {
		return false
	}
	for _, r := range g.rings {
		if !r.retire() {
			return false
		}
	}
	return true
}

// nextChange is when g may change without a call: when its current slice or a slot of
// calls in flight ends.
func (g *generation) nextChange(now time.Duration) time.Duration {
	next := g.window.end()
	for _, r := range g.rings {
		next = min(next, (now>>r.shift+1)<<r.shift)
	}
	return next
}

func (g *generation) evidence() Evidence {
	return Evidence{Window: g.window.total, Fast: g.window.fast, Hung: int(g.hung)}
}
