package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// suspicion returns what the next tick reports.
func (r *rig) suspicion() Suspicion {
	r.t.Helper()
	told := NoSuspicion
	r.registry.OnSuspicion = func(_ *Breaker, s Suspicion) { told = s }
	r.registry.Tick()
	return told
}

func TestSuspicion_OneBadCallIsAWeakSuspicion(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	assert.Equal(t, NoSuspicion, r.suspicion())
	r.call(Failure, 0)
	assert.Equal(t, WeakSuspicion, r.suspicion())
	assert.Equal(t, WeakSuspicion, r.suspicion(), "while it lasts")
	r.call(Success, 0)
	assert.Equal(t, NoSuspicion, r.suspicion(), "a call has succeeded")
}

func TestSuspicion_FiveBadCallsInARowAreAStrongSuspicion(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.calls(4, Failure)
	assert.Equal(t, WeakSuspicion, r.suspicion())
	r.call(Success, 6*time.Second)
	assert.Equal(t, StrongSuspicion, r.suspicion(), "a slow call is bad with any outcome")
}

func TestSuspicion_EndsWithTheWindow(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.calls(5, Failure)
	r.pass(2 * time.Minute)
	assert.Equal(t, NoSuspicion, r.suspicion())
}

func TestSuspicion_IgnoredCallsDoNotCount(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.calls(5, Ignored)
	assert.Equal(t, NoSuspicion, r.suspicion())
	r.call(Failure, 0)
	r.calls(5, Ignored)
	assert.Equal(t, WeakSuspicion, r.suspicion(), "ignored calls do not reset it either")
}

// A busy process has its own rule: without a trip there is no suspicion.
func TestSuspicion_FailuresAmongManyGoodCallsAreNone(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.calls(100, Success)
	r.calls(9, Failure)
	assert.Equal(t, NoSuspicion, r.suspicion())
}

func TestSuspicion_ASlowCallAmongGoodCallsIsNone(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	slow := r.allow()
	for range 12 {
		r.call(Success, 500*time.Millisecond)
		assert.Equal(t, NoSuspicion, r.suspicion())
	}
	slow.Done(Success)
	r.call(Success, 0)
	assert.Equal(t, NoSuspicion, r.suspicion())
}

// With one hanging call a second, the calls after the first hanging one count too.
func TestSuspicion_CountsCallsThatBeganAfterAHangingOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Latency: 5 * time.Second})
	for range 60 {
		r.call(Success, time.Second)
		r.registry.Tick()
	}
	for range 5 {
		r.allow()
		assert.Equal(t, NoSuspicion, r.suspicion(), "a call takes a second")
		r.pass(time.Second)
	}
	r.pass(250 * time.Millisecond)
	assert.Equal(t, StrongSuspicion, r.suspicion())
}

func TestSuspicion_NoneOnceTheBreakerIsNotClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	r.trip()
	assert.Equal(t, NoSuspicion, r.suspicion())
	off := newRig(t, Config{Mode: Off})
	off.calls(5, Failure)
	assert.Equal(t, NoSuspicion, off.suspicion())
}
