// Package polling slows the polling of a worker for activities.
//
// A worker that fails fast frees its slots at once, polls more often than the healthy
// workers, and so takes most of the queue's tasks. Slow polling leaves them to the others.
package polling

import (
	"sync"
	"sync/atomic"
)

// Gate sets whether the workers that are configured with it poll slowly. The zero Gate
// does not slow them. It may be used concurrently.
type Gate struct {
	slow atomic.Bool

	// mu guards changed and writes to slow.
	mu      sync.Mutex
	changed chan struct{}
}

// Set begins or ends slow polling.
func (g *Gate) Set(slow bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.slow.Swap(slow) != slow && g.changed != nil {
		close(g.changed)
		g.changed = nil
	}
}

// Slow reports whether polling is slow now.
func (g *Gate) Slow() bool { return g.slow.Load() }

// state returns Slow, and a channel that is closed when that changes.
func (g *Gate) state() (slow bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed == nil {
		g.changed = make(chan struct{})
	}
	return g.slow.Load(), g.changed
}
