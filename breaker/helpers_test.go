package breaker

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testClock moves only when a test moves it. Its wall clock can jump.
type testClock struct{ elapsed, jumped atomic.Int64 }

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func (c *testClock) Elapsed() time.Duration  { return time.Duration(c.elapsed.Load()) }
func (c *testClock) Now() time.Time          { return noon.Add(c.Elapsed() + time.Duration(c.jumped.Load())) }
func (c *testClock) advance(d time.Duration) { c.elapsed.Add(int64(d)) }
func (c *testClock) jump(d time.Duration)    { c.jumped.Add(int64(d)) }

var testKey = Key{Dependency: "carrier-api", Region: "eu-west"}

// rig is one breaker with its clock and registry.
type rig struct {
	*Breaker
	t        testing.TB
	clock    *testClock
	registry *Registry
}

func newRig(t testing.TB, c Config) *rig {
	require.NoError(t, c.Validate())
	clock := &testClock{}
	r := NewRegistry(clock, func(Transition) {})
	r.Random = func() float64 { return 0.5 }
	return &rig{Breaker: r.Get(testKey, c), t: t, clock: clock, registry: r}
}

// allow admits one call.
func (r *rig) allow() *Permit {
	r.t.Helper()
	p, refusal := r.Allow(Call{Attempt: 1})
	require.Nil(r.t, refusal)
	return &p
}

// call makes one call that takes this long.
func (r *rig) call(outcome Outcome, took time.Duration) {
	r.t.Helper()
	p := r.allow()
	r.clock.advance(took)
	p.Done(outcome)
}

// calls makes n calls that take no time.
func (r *rig) calls(n int, outcome Outcome) {
	r.t.Helper()
	for range n {
		r.call(outcome, 0)
	}
}

func (r *rig) refused() *Refusal {
	r.t.Helper()
	_, refusal := r.Allow(Call{Attempt: 1})
	require.NotNil(r.t, refusal)
	return refusal
}

// trip opens the breaker.
func (r *rig) trip() {
	r.t.Helper()
	r.calls(r.Config().MinSamples, Failure)
	require.Equal(r.t, Open, r.Snapshot().State)
}

// pass moves the clock in small steps, with a tick after each.
func (r *rig) pass(d time.Duration) {
	for step := min(d, 250*time.Millisecond); d > 0; d -= step {
		r.clock.advance(min(step, d))
		r.registry.Tick()
	}
}

// until ticks until the breaker reaches a state, and returns how long that took.
func (r *rig) until(want State) time.Duration {
	r.t.Helper()
	begun := r.clock.Elapsed()
	for r.Snapshot().State != want {
		require.Less(r.t, r.clock.Elapsed()-begun, 24*time.Hour, "never %v", want)
		r.pass(250 * time.Millisecond)
	}
	return r.clock.Elapsed() - begun
}

// events returns the transitions since the last call of events.
func (r *rig) events() []Transition {
	e := &r.registry.events
	e.mu.Lock()
	defer e.mu.Unlock()
	queue := e.queue
	e.queue = nil
	return queue
}

func states(transitions []Transition) []State {
	var to []State
	for _, t := range transitions {
		to = append(to, t.To)
	}
	return to
}
