package breaker

import (
	"sync/atomic"
	"time"
)

// pass is what a gate does with a call.
type pass uint8

const (
	// passCounted lets every call pass and counts it.
	passCounted pass = iota
	// passUncounted lets every call pass and counts nothing.
	passUncounted
	// passNone refuses every call.
	passNone
	// passLocked decides each call under the breaker's lock.
	passLocked
)

// gate holds all that admitting a call needs, read with one atomic load. It is never
// modified, only replaced under Breaker.mu. A closed and idle breaker has none.
type gate struct {
	pass     pass
	shift    uint8
	cellMask uint8
	// spreadAt is the number of collisions after which a call takes the lock, to spread
	// goroutines over cells or refusal counters with a new seed.
	spreadAt uint32
	seed     uint64
	breaker  *Breaker
	// clock is nil for the machine's clock, which then needs no indirect call.
	clock      Clock
	generation *generation
	// latency and maxAttempts are those of the configuration.
	latency     time.Duration
	maxAttempts int
	// cells are those of the ring for the default threshold.
	cells [maxCells]*cell

	// until is when refusing is due to end.
	until   time.Duration
	refusal *Refusal
	refused *refusedCount
}

// cell returns the cell for the calling goroutine.
func (g *gate) cell() *cell {
	if g.cellMask == 0 {
		return g.cells[0]
	}
	return g.cells[stripe(g.seed)&uintptr(g.cellMask)]
}

func (g *gate) now() time.Duration {
	if g.clock == nil {
		return time.Since(processStart)
	}
	return g.clock.Elapsed()
}

// refusedCount counts the refusals over a breaker's life. Each stripe has its own
// pair of cache lines, because processors fetch them in pairs.
type refusedCount struct {
	stripes [refusedStripes]struct {
		_ [64]byte
		n atomic.Int64
		_ [56]byte
	}
	// collisions counts lost races since the last spread. reseeds counts the spreads and
	// is guarded by Breaker.mu.
	collisions atomic.Uint32
	reseeds    uint32
}

const refusedStripes = 4

// add counts one refusal and returns the count of its stripe.
func (r *refusedCount) add(seed uint64) int64 {
	n := &r.stripes[stripe(seed)%refusedStripes].n
	old := n.Load()
	if n.CompareAndSwap(old, old+1) {
		return old + 1
	}
	r.collisions.Add(1)
	return n.Add(1)
}

// look advances the breaker if that is due. Otherwise it must not take the lock,
// because a write near the gate's pointer slows down every refusal.
func (g *gate) look() {
	if g.now() >= g.until || g.refused.collisions.Load() >= g.spreadAt {
		g.breaker.Tick()
	}
}

// spread changes the seed if goroutines collide, and returns whether it did.
func (r *refusedCount) spread() bool {
	if r == nil || r.collisions.Load() < spreadAt(r.reseeds) {
		return false
	}
	r.collisions.Store(0)
	r.reseeds++
	return true
}

func (r *refusedCount) sum() int64 {
	var n int64
	if r != nil {
		for i := range r.stripes {
			n += r.stripes[i].n.Load()
		}
	}
	return n
}
