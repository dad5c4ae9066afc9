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
	// over the cells anew.
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

// refusedCount counts the refusals of a breaker over its life, each stripe in a
// cache line of its own.
type refusedCount [maxCells]struct {
	n atomic.Int64
	_ [56]byte
}

// add counts one refusal and gives how many its stripe has seen.
func (r *refusedCount) add() int64 { return r[stripe(firstSeed)].n.Add(1) }

func (r *refusedCount) sum() int64 {
	var n int64
	if r != nil {
		for i := range r {
			n += r[i].n.Load()
		}
	}
	return n
}
