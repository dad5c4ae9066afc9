package breaker

import (
	"sync/atomic"
	"time"
)

// generation is what a breaker counts between two transitions. Each transition
// leaves it behind whole, with every permit that it gave out: so a window is
// fresh without being cleared, and an outcome is late if it belongs to another
// generation than the breaker does.
type generation struct {
	// lockFrom is the time from which the end of a good call must take the lock:
	// when the running slice is over or a call may begin to hang. It is 0 while
	// every end may decide something. Until then an end that is good and in time
	// can trip nothing: it lowers every rate, and completes no minimum that is
	// waited for.
	lockFrom atomic.Int64

	// Every call reads lockFrom. The rest of its cache line is guarded by
	// Breaker.mu, and so is what follows; what calls write without the lock stands
	// last.

	rings []*ring
	// ended counts the samples of this generation, expired ones included.
	ended int
	// inFlight and hung are as of the last settling.
	inFlight, hung int32
	// lastGood is when a call was last seen to have ended well, and bad how many
	// have ended badly since, up to strongInARow.
	lastGood time.Duration
	// now is the latest time that anybody brought to the lock.
	now    time.Duration
	window window
	// reseeds is how often goroutines were spread over the cells anew.
	reseeds uint16
	bad     uint8

	// collisions counts the races lost for a word of the ring.
	collisions atomic.Uint32
	latencies  histogram
}

func newGeneration(now time.Duration, s *settings) *generation {
	g := &generation{window: newWindow(now, s), lastGood: now - s.Latency - 1}
	g.latencies.turn = now + s.Window/2
	g.ring(s.Latency)
	return g
}

// ring gives the ring for calls of this threshold.
func (g *generation) ring(latency time.Duration) *ring {
	class := latencyClass(latency)
	for _, r := range g.rings {
		if r.class == class {
			return r
		}
	}
	r := newRing(class)
	g.rings = append(g.rings, r)
	// Its slots are narrower than those that lockFrom was reckoned by, perhaps.
	g.lockFrom.Store(0)
	return r
}

// count records samples in the running slice.
func (g *generation) count(c Counts) {
	if c.Samples > 0 {
		g.window.record(c)
		g.ended += c.Samples
	}
}

// good notes that a call has ended well.
func (g *generation) good(now time.Duration) { g.bad, g.lastGood = 0, now }

// see gives the latest time known. Callers read the clock before they take the
// lock, some of them long before: to one of those, words taken into use since
// would seem to be turns of the ring ahead.
func (g *generation) see(now time.Duration) time.Duration {
	g.now = max(g.now, now)
	return g.now
}

// settle brings window, inFlight, hung and latencies up to now. What ended well
// since the last settling belongs to the slice that was running until now.
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

// shut is the last settling: no permit counts in g from here on. It gives how
// many calls are still in flight.
func (g *generation) shut(now time.Duration) (abandoned int) {
	g.settle(now)
	for _, r := range g.rings {
		ended, calls := r.shut()
		g.count(Counts{Samples: ended})
		abandoned += calls
	}
	return abandoned
}

// retire shuts g if nothing is in it, and tells whether it did. A call that
// begins meanwhile keeps g alive.
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

// nextChange is when time alone may change what g says: its running slice ends,
// or a slot of calls in flight is over.
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
