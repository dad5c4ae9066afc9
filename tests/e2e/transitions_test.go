package e2e_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// transitions records the transitions of one plugin's breakers, in order.
type transitions struct {
	mu   sync.Mutex
	all  []breaker.Transition
	next chan struct{} // closed and replaced at each transition
}

func newTransitions() *transitions { return &transitions{next: make(chan struct{})} }

// record is the OnTransition of a plugin.
func (e *transitions) record(t breaker.Transition) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, t)
	close(e.next)
	e.next = make(chan struct{})
}

// of returns the transitions of one key so far.
func (e *transitions) of(key breaker.Key) []breaker.Transition {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []breaker.Transition
	for _, transition := range e.all {
		if transition.Key == key {
			found = append(found, transition)
		}
	}
	return found
}

// await waits for key's first transition to a state at from or later, and returns it.
func (e *transitions) await(t *testing.T, key breaker.Key, to breaker.State, from time.Time) breaker.Transition {
	t.Helper()
	deadline := time.After(waitTimeout)
	for {
		e.mu.Lock()
		next := e.next
		e.mu.Unlock()
		for _, transition := range e.of(key) {
			if transition.To == to && !transition.At.Before(from) {
				return transition
			}
		}
		select {
		case <-next:
		case <-deadline:
			require.FailNow(t, "a transition is missing", "%s was never %s: %v", key, to, states(e.of(key)))
		}
	}
}

// transitionsBetween returns the transitions at from or later, and before to.
func transitionsBetween(transitions []breaker.Transition, from, to time.Time) []breaker.Transition {
	var found []breaker.Transition
	for _, e := range transitions {
		if !e.At.Before(from) && e.At.Before(to) {
			found = append(found, e)
		}
	}
	return found
}

// states returns the state after each transition.
func states(transitions []breaker.Transition) []breaker.State {
	var states []breaker.State
	for _, e := range transitions {
		states = append(states, e.To)
	}
	return states
}

// blockedSince reports whether calls were refused at a time, and since when.
func blockedSince(transitions []breaker.Transition, at time.Time) (since time.Time, blocked bool) {
	for _, e := range transitions {
		if e.At.After(at) {
			break
		}
		refuses := e.To == breaker.Open || e.To == breaker.HalfOpen
		if refuses && !blocked {
			since = e.At
		}
		blocked = refuses
	}
	return since, blocked
}
