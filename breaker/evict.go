package breaker

import "time"

// idleSince tells when the breaker was last used, if it may be evicted: it is
// closed and no call is in flight.
func (b *Breaker) idleSince(now time.Duration) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastUsed, b.mayGo(now)
}

func (b *Breaker) mayGo(now time.Duration) bool {
	if b.incident != nil {
		return false
	}
	if b.generation != nil {
		b.generation.settle(now)
		return b.generation.inFlight == 0
	}
	return true
}

// evict cuts the breaker off if it may go: whoever still holds it finds a
// breaker that lets every call pass and never opens.
func (b *Breaker) evict(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mayGo(now) {
		return false
	}
	b.evicted = true
	return true
}
