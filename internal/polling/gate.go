// Package polling slows a worker's polling for activities down.
//
// A worker that fails fast is a black hole: it frees its slots at once, polls more
// than the healthy ones, and so attracts the queue's tasks.
package polling

import (
	"sync"
	"sync/atomic"
)

// Gate says whether the workers that are configured with it poll slowly. The zero
// Gate says no.
type Gate struct {
	slow atomic.Bool

	// mu guards changed, and writing slow.
	mu      sync.Mutex
	changed chan struct{}
}

// Set begins slow polling, or ends it.
func (g *Gate) Set(slow bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.slow.Swap(slow) != slow && g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// Slow tells whether polling is slow now.
func (g *Gate) Slow() bool { return g.slow.Load() }

// look is Slow, with a channel that is closed once that is no longer so.
func (g *Gate) look() (slow bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.slow.Load(), g.changed
}
