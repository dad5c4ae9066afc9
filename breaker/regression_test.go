package breaker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// 29 failures of 100 tripped a breaker with FailureRate 0.29, although a rate must be
// over its limit: in floating point 0.29·100 is 28.999999999999996. Limits are now
// compared in millionths.
func TestRegressionRateAtTheLimit(t *testing.T) {
	c := Config{FailureRate: 0.29}.WithDefaults()
	_, trip := c.Judge(Evidence{Window: Counts{Samples: 100, Failures: 29}})
	require.False(t, trip)
}

// A second outage began with the ramp state of the first. An unchanged share was not
// started anew, so its first call could be refused, and a quiet key waited half a step
// for its first call.
func TestRegressionRampBeginsAnew(t *testing.T) {
	r := newRig(t, Config{Cooldown: time.Second, Ramp: []int{10, 100}, RampMinSamples: 1, NoProbe: true})
	for range 3 {
		r.trip()
		r.until(Recovering)
		r.allow()
		_, refusal := r.Allow(Call{})
		require.NotNil(t, refusal)
		r.until(Closed)
	}
}

// A call that passed early on a quiet key was not made up for. Bursts with pauses then
// got more than their share of 10 %.
func TestRegressionEarlyCallsAreMadeUpFor(t *testing.T) {
	var r rampShare
	r.set(10)
	now, admitted := time.Duration(0), 0
	for range 100 {
		now += time.Minute
		for range 10 {
			if r.admit(now, time.Minute) {
				admitted++
			}
		}
	}
	require.Equal(t, 100, admitted)
}

// At one call a second the fast horizon held nine or ten samples, because the current
// slice was one of its ten. With MinSamples 10 the failure rule was then left to the
// whole window, which takes thirty seconds. A horizon now covers its full span and
// the current slice.
func TestRegressionFastHorizonAtOneCallASecond(t *testing.T) {
	for offset := time.Duration(0); offset < time.Second; offset += 50 * time.Millisecond {
		r := newRig(t, Config{})
		r.clock.advance(offset)
		for range 60 {
			r.call(Success, time.Second)
			require.GreaterOrEqual(t, min(10, r.Evidence().Window.Samples), min(10, r.Evidence().Fast.Samples))
		}
		require.GreaterOrEqual(t, r.Evidence().Fast.Samples, 10)
	}
}

// A latency threshold of 10 ms, the shortest allowed, was refused because of the
// default of ProbeInterval, a fifth of it.
func TestRegressionDefaultsOfShortThresholds(t *testing.T) {
	require.NoError(t, Config{Latency: minDuration}.Validate())
	require.NoError(t, Config{Window: minDuration}.Validate())
}

// A verdict of recovering from a machine whose clock was hours ahead kept the breaker
// at 10 % for hours, because only the other states' ends had a limit.
func TestRegressionRampOfAClockAhead(t *testing.T) {
	r := newRig(t, Config{MaxCooldown: time.Minute, Cooldown: time.Minute})
	r.Apply(Verdict{State: Recovering, Epoch: 1, Share: 10, Next: r.clock.Now().Add(9 * time.Hour)})
	require.Less(t, r.until(Closed), 10*time.Minute)
}

// The ticking goroutine delivered transitions. A hook that blocked kept every breaker
// of the process from advancing.
func TestRegressionSlowHookStopsNoClock(t *testing.T) {
	blocked, release := make(chan Transition, 2), make(chan struct{})
	r := NewRegistry(SystemClock(), func(e Transition) {
		blocked <- e
		<-release
	})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.Run(ctx, time.Millisecond)
	}()
	b := r.Get(testKey, Config{})
	require.NoError(t, b.Force(Force{State: ForcedClosed, By: "ann", Note: "a test", For: time.Millisecond}))
	<-blocked
	require.Eventually(t, func() bool { return b.Snapshot().State == Closed }, 10*time.Second, time.Millisecond)
	close(release)
	cancel()
	<-stopped
	require.Len(t, blocked, 1, "the second edge")
}

// A cooldown with jitter could last a tenth longer than MaxCooldown.
func TestRegressionJitterStaysUnderTheCap(t *testing.T) {
	r := newRig(t, Config{Cooldown: time.Minute, MaxCooldown: time.Minute})
	r.registry.Random = func() float64 { return 0.999 }
	r.trip()
	require.Equal(t, time.Minute, r.refused().RetryAt.Sub(r.clock.Now()))
}

// A goroutine that paused after reading the clock settled the ring at an old time.
// Words of running calls looked as if they were turns ahead, were taken out of use,
// and were reused by the next call. One call then ended another one's count, and the
// other's end counted as a second Done. Found by TestStressClosed.
func TestRegressionAClockReadLongAgo(t *testing.T) {
	r := newRig(t, Config{MinSamples: 1000})
	early := r.clock.Elapsed()
	r.clock.advance(time.Hour)
	stale, a := r.allow(), r.allow()
	r.finish(ended{stale.gate.generation, stale.word, slotOf(stale.begun, stale.limit.Duration), 0, stale.limit.Duration, Success}, early)
	b := r.allow()
	a.Done(Success)
	b.Done(Success)
	s := r.Snapshot()
	require.Zero(t, s.DoneTwice)
	require.Zero(t, s.InFlight)
	require.Equal(t, 3, s.Evidence.Window.Samples)
}

// A latency threshold near the maximum of time.Duration overflowed when added to the
// time, so every call hung at once. Durations are now limited.
func TestRegressionThresholdsThatOverflow(t *testing.T) {
	require.ErrorContains(t, Config{Latency: 1<<63 - 1}.Validate(), "Latency: 2562047h47m16.854775807s is too long; at most 8760h0m0s")
	r := newRig(t, Config{Latency: maxDuration, Cooldown: maxDuration, Window: maxDuration})
	r.clock.advance(20 * maxDuration)
	r.allow()
	r.Tick()
	require.Zero(t, r.Evidence().Hung)
	r.clock.advance(maxDuration + maxDuration/16 + 1)
	require.Equal(t, 1, r.Evidence().Hung)
}

// A registry without a hook kept each transition for ever.
func TestRegressionTransitionsWithoutAHookAreNotKept(t *testing.T) {
	r := NewRegistry(&testClock{}, nil)
	b := r.Get(testKey, Config{})
	for range 10 {
		b.call(Failure)
	}
	require.Equal(t, Open, b.Snapshot().State)
	require.Empty(t, r.events.queue)
}
