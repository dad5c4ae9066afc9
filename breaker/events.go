package breaker

import (
	"context"
	"sync"
	"sync/atomic"
)

// events delivers transitions to a hook in order, on the goroutine of Run. Without a
// hook nothing is kept. The queue has no bound, because a key takes at most a few
// transitions in a cooldown.
type events struct {
	hook   func(Transition)
	wake   chan struct{}
	panics atomic.Int64

	mu    sync.Mutex
	queue []Transition
}

func newEvents(hook func(Transition)) events {
	return events{hook: hook, wake: make(chan struct{}, 1)}
}

// enqueue is called with the breaker's lock held, which keeps its transitions in
// order.
func (r *Registry) enqueue(t Transition) {
	e := &r.events
	if e.hook == nil {
		return
	}
	e.mu.Lock()
	e.queue = append(e.queue, t)
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *events) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			e.deliver()
			return
		case <-e.wake:
			e.deliver()
		}
	}
}

func (e *events) deliver() {
	for {
		e.mu.Lock()
		queue := e.queue
		e.queue = nil
		e.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, t := range queue {
			e.call(t)
		}
	}
}

func (e *events) call(t Transition) {
	defer func() {
		if recover() != nil {
			e.panics.Add(1)
		}
	}()
	e.hook(t)
}
