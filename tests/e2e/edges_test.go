package e2e_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// edges are the transitions of one plugin's breakers, in order.
type edges struct {
	mu   sync.Mutex
	all  []breaker.Transition
	next chan struct{} // closed and replaced at each edge
}

func newEdges() *edges { return &edges{next: make(chan struct{})} }

// record is a plugin's OnTransition.
func (e *edges) record(t breaker.Transition) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, t)
	close(e.next)
	e.next = make(chan struct{})
}

// of gives the edges of one key so far.
func (e *edges) of(key breaker.Key) []breaker.Transition {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []breaker.Transition
	for _, edge := range e.all {
		if edge.Key == key {
			found = append(found, edge)
		}
	}
	return found
}

// await waits for the first edge of key to a state at or after a moment.
func (e *edges) await(t *testing.T, key breaker.Key, to breaker.State, from time.Time) breaker.Transition {
	t.Helper()
	deadline := time.After(patience)
	for {
		e.mu.Lock()
		next := e.next
		e.mu.Unlock()
		for _, edge := range e.of(key) {
			if edge.To == to && !edge.At.Before(from) {
				return edge
			}
		}
		select {
		case <-next:
		case <-deadline:
			require.FailNow(t, "the breaker did not get there", "%s was never %s: %v", key, to, path(e.of(key)))
		}
	}
}

// between are the edges taken from one moment to another.
func between(edges []breaker.Transition, from, to time.Time) []breaker.Transition {
	var found []breaker.Transition
	for _, e := range edges {
		if !e.At.Before(from) && e.At.Before(to) {
			found = append(found, e)
		}
	}
	return found
}

// path is the states that edges lead to.
func path(edges []breaker.Transition) []breaker.State {
	var states []breaker.State
	for _, e := range edges {
		states = append(states, e.To)
	}
	return states
}

// blockedSince tells whether calls were refused at a moment, and since when.
func blockedSince(edges []breaker.Transition, at time.Time) (since time.Time, blocked bool) {
	for _, e := range edges {
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
