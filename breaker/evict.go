package breaker

import "time"

// idleSince returns when the breaker was last used, and whether it may be evicted: it
// is closed and has no call in flight.
func (b *Breaker) idleSince(now time.Duration) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastUsed, b.mayBeEvicted(now)
}

func (b *Breaker) mayBeEvicted(now time.Duration) bool {
	if b.incident != nil {
		return false
	}
	if b.generation != nil {
		b.generation.settle(now)
		return b.generation.inFlight == 0
	}
	return true
}

// evict detaches the breaker if it is idle. A caller that still has it finds a
// breaker that lets every call pass and never opens.
func (b *Breaker) evict(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mayBeEvicted(now) {
		return false
	}
	b.evicted = true
	return true
}
