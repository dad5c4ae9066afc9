package breaker

import (
	"context"
	"sync"
	"time"
)

// Registry holds a process's breakers by key. All methods may be called
// concurrently.
type Registry struct {
	clock    Clock
	breakers sync.Map // Key → *Breaker

	mu     sync.Mutex
	queue  []Transition
	wake   chan struct{}
	onEdge func(Transition)
}

// NewRegistry makes an empty registry. onTransition is called by
// [Registry.Run], one transition at a time and in order, outside every lock;
// it may be nil.
func NewRegistry(clock Clock, onTransition func(Transition)) *Registry {
	if onTransition == nil {
		onTransition = func(Transition) {}
	}
	return &Registry{clock: clock, onEdge: onTransition, wake: make(chan struct{}, 1)}
}

// Get gives the breaker of key, made with config when there is none yet.
func (r *Registry) Get(key Key, config Config) *Breaker {
	if b, ok := r.breakers.Load(key); ok {
		return b.(*Breaker)
	}
	b, _ := r.breakers.LoadOrStore(key, newBreaker(key, config, r.clock, r.enqueue))
	return b.(*Breaker)
}

// Find gives the breaker of key if there is one.
func (r *Registry) Find(key Key) (*Breaker, bool) {
	b, ok := r.breakers.Load(key)
	if !ok {
		return nil, false
	}
	return b.(*Breaker), true
}

// All gives every breaker, in no order.
func (r *Registry) All() []*Breaker {
	var all []*Breaker
	r.breakers.Range(func(_, b any) bool {
		all = append(all, b.(*Breaker))
		return true
	})
	return all
}

// Run ticks every breaker each interval and delivers transitions, until ctx is
// done. It then delivers what is left and returns.
func (r *Registry) Run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			r.deliver()
			return
		case <-r.wake:
		case <-ticker.C:
			r.breakers.Range(func(_, b any) bool {
				b.(*Breaker).Tick()
				return true
			})
		}
		r.deliver()
	}
}

func (r *Registry) enqueue(t Transition) {
	r.mu.Lock()
	r.queue = append(r.queue, t)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Registry) deliver() {
	for {
		r.mu.Lock()
		queue := r.queue
		r.queue = nil
		r.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, t := range queue {
			r.onEdge(t)
		}
	}
}
