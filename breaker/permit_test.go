package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDoneTwice(t *testing.T) {
	r := newRig(t, Config{})
	p := r.allow()
	p.Done(Success)
	p.Done(Failure)
	p.Done(Failure)
	s := r.Snapshot()
	require.Equal(t, Counts{Samples: 1}, s.Evidence.Window)
	require.Equal(t, int64(2), s.DoneTwice)
	require.Zero(t, s.InFlight)
}

func TestACopiedPermitDoesNoHarm(t *testing.T) {
	r := newRig(t, Config{})
	p := r.allow()
	again := Permit{gate: p.gate, word: p.word, begun: p.begun, limit: limit{Duration: p.limit.Duration}}
	p.Done(Success)
	again.Done(Failure)
	s := r.Snapshot()
	require.Equal(t, Counts{Samples: 1}, s.Evidence.Window)
	require.Equal(t, int64(1), s.DoneTwice)
	require.Zero(t, s.InFlight)
}

func TestZeroPermit(t *testing.T) {
	var p Permit
	p.Done(Failure)
	p.Done(Failure)
	require.Zero(t, p.Latency())
}

func TestLeakedPermitsBlockNothingAndAreCounted(t *testing.T) {
	r := newRig(t, Config{MinSlow: 3})
	for range 10 {
		r.allow()
	}
	require.Equal(t, 10, r.Snapshot().InFlight)
	took := r.until(Open)
	require.InDelta(t, 5, took.Seconds(), 1)
	require.Equal(t, int64(10), r.Snapshot().Abandoned)
	r.until(Closed)
	r.pass(time.Hour)
	require.Equal(t, int64(10), r.Snapshot().Abandoned, "visible afterwards")
	require.Equal(t, Closed, r.Snapshot().State)
}

// The tick finds a dependency that answers no call, although no call ends and none
// begins.
func TestHungCallsAreFoundWithoutTraffic(t *testing.T) {
	for _, latency := range []time.Duration{10 * time.Millisecond, 300 * time.Millisecond, 5 * time.Second, 10 * time.Minute} {
		r := newRig(t, Config{Latency: latency})
		var calls []*Permit
		for range 10 {
			calls = append(calls, r.allow())
		}
		r.clock.advance(latency)
		r.Tick()
		require.Equal(t, Closed, r.Snapshot().State, "not over the threshold")
		r.clock.advance(latency/16 + 1)
		r.Tick()
		s := r.Snapshot()
		require.Equal(t, Open, s.State, "a sixteenth later at most")
		require.Equal(t, RuleLatency, s.Reason.Rule)
		require.Equal(t, 10, s.Reason.Hung)
		for _, p := range calls {
			p.Done(Failure)
		}
		require.Equal(t, int64(10), r.Snapshot().Late)
		require.Zero(t, r.Snapshot().Abandoned)
	}
}

func TestAHungCallCountsOnce(t *testing.T) {
	r := newRig(t, Config{})
	p := r.allow()
	r.clock.advance(6 * time.Second)
	require.Equal(t, Evidence{Hung: 1}, r.Evidence())
	p.Done(Success)
	one := Counts{Samples: 1, Slow: 1}
	require.Equal(t, Evidence{Window: one, Fast: one}, r.Evidence())
}

// A call stays in flight until it ends, even after turns of the ring, idle time, and
// other calls in its place.
func TestCallsOutliveTheRing(t *testing.T) {
	for _, wait := range []time.Duration{time.Second, 20 * time.Second, time.Minute, time.Hour, 1000 * time.Hour} {
		r := newRig(t, Config{MinSamples: 1000})
		p := r.allow()
		r.pass(min(wait, 2*time.Minute))
		r.clock.advance(wait)
		other := r.allow()
		require.Equal(t, 2, r.Snapshot().InFlight, "after %v", wait)
		p.Done(Success)
		require.Equal(t, 1, r.Snapshot().InFlight, "after %v", wait)
		other.Done(Success)
		s := r.Snapshot()
		require.Zero(t, s.InFlight, "after %v", wait)
		require.Zero(t, s.Evidence.Hung)
		require.Zero(t, s.DoneTwice)
	}
}

func TestIgnored(t *testing.T) {
	r := newRig(t, Config{})
	r.call(Ignored, time.Second)
	require.Zero(t, r.Evidence().Window, "before the threshold: no sample")
	r.call(Ignored, 5*time.Second+1)
	require.Equal(t, Counts{Samples: 1, Slow: 1}, r.Evidence().Window, "past it: slow")
}

func TestSlowIsOverTheThreshold(t *testing.T) {
	r := newRig(t, Config{})
	r.call(Success, 5*time.Second)
	require.Zero(t, r.Evidence().Window.Slow)
	r.call(Failure, 5*time.Second+1)
	require.Equal(t, Counts{Samples: 2, Failures: 1, Slow: 1}, r.Evidence().Window, "a failed call's latency counts too")
}

func TestToolsHaveTheirOwnThreshold(t *testing.T) {
	r := newRig(t, Config{
		Latency:     time.Second,
		ToolLatency: map[string]time.Duration{"create_return_label": 20 * time.Second},
	})
	for _, tool := range []string{"create_return_label", "get_delivery_status"} {
		p, _ := r.Allow(Call{Tool: tool})
		defer p.Done(Success)
	}
	r.clock.advance(2 * time.Second)
	require.Equal(t, 1, r.Evidence().Hung)
	require.Equal(t, 2, r.Snapshot().InFlight, "one breaker for both")
	r.clock.advance(20 * time.Second)
	require.Equal(t, 2, r.Evidence().Hung)
}

func TestPoisonedRun(t *testing.T) {
	r := newRig(t, Config{MinSamples: 4, FailureRate: 0.1})
	for attempt := range 100 {
		p, refusal := r.Allow(Call{Attempt: attempt + 1})
		require.Nil(t, refusal)
		p.Done(Failure)
	}
	require.Equal(t, Counts{Samples: 3, Failures: 3}, r.Evidence().Window)
}

func TestAllowAndDoneAllocateNothing(t *testing.T) {
	r := newRig(t, Config{})
	r.calls(1, Success)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		p, _ := r.Allow(Call{Attempt: 1})
		p.Done(Success)
	}))
	r.force(ForcedOpen)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_, _ = r.Allow(Call{Attempt: 1})
	}))
}
