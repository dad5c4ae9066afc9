package breaker

import (
	"sync/atomic"
	"time"
)

// pass says what a gate does with a call.
type pass uint8

const (
	// passCounted lets every call pass and counts it.
	passCounted pass = iota
	// passUncounted lets every call pass and counts nothing.
	passUncounted
	// passNone refuses every call.
	passNone
	// passAsk leaves each call to the breaker's lock.
	passAsk
)

// gate is all that admitting a call needs to know, read with one atomic load.
// It is never changed, only replaced, under Breaker.mu. A breaker that is closed
// and idle has none.
type gate struct {
	pass     pass
	shift    uint8
	cellMask uint8
	// spreadAt is how many collisions send a call to the lock, to spread goroutines
	// over the cells, or the counters of refusals, anew.
	spreadAt uint32
	seed     uint64
	breaker  *Breaker
	// clock is nil for the machine's, which is read without an indirect call.
	clock      Clock
	generation *generation
	// latency and maxAttempts are the configuration's.
	latency     time.Duration
	maxAttempts int
	// cells are those of the ring for the default threshold.
	cells [maxCells]*cell

	// until is when refusing is due to end.
	until   time.Duration
	refusal *Refusal
	refused *refusedCount
}

// cell is the one for the goroutine that asks.
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

// refusedCount counts the refusals of a breaker over its life, each stripe in
// cache lines of its own: processors fetch them by pairs.
type refusedCount struct {
	stripes [refusedStripes]struct {
		_ [64]byte
		n atomic.Int64
		_ [56]byte
	}
	// collisions counts the races lost for a stripe since goroutines were spread
	// anew; reseeds is how often they were, guarded by Breaker.mu.
	collisions atomic.Uint32
	reseeds    uint32
}

const refusedStripes = 4

// add counts one refusal and gives how many its stripe has seen.
func (r *refusedCount) add(seed uint64) int64 {
	n := &r.stripes[stripe(seed)%refusedStripes].n
	old := n.Load()
	if n.CompareAndSwap(old, old+1) {
		return old + 1
	}
	r.collisions.Add(1)
	return n.Add(1)
}

// look moves the breaker on if it is time. It leaves the lock alone otherwise:
// whoever writes near the gate's own pointer holds up every refusal.
func (g *gate) look() {
	if g.now() >= g.until || g.refused.collisions.Load() >= g.spreadAt {
		g.breaker.Tick()
	}
}

// spread gives goroutines another seed if they get into each other's way, and
// tells whether it did.
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
