package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reach brings a fresh breaker into a state.
var reach = map[string]func(*rig){
	"closed":           func(r *rig) {},
	"closed, failures": func(r *rig) { r.calls(9, Failure) },
	"closed, one call leaked": func(r *rig) {
		r.calls(20, Success)
		r.allow()
	},
	"open":            func(r *rig) { r.trip() },
	"open, observing": func(r *rig) { c := r.Config(); c.Mode = Observe; r.mustConfigure(c); r.trip() },
	"open, then off":  func(r *rig) { r.trip(); c := r.Config(); c.Mode = Off; r.mustConfigure(c) },
	"open, a call late": func(r *rig) {
		p := r.allow()
		r.trip()
		p.Done(Failure)
	},
	"half-open":                 func(r *rig) { r.trip(); r.until(HalfOpen) },
	"recovering":                func(r *rig) { r.trip(); r.until(Recovering) },
	"recovering, a call leaked": func(r *rig) { r.trip(); r.until(Recovering); r.allow() },
	"forced open":               func(r *rig) { r.force(ForcedOpen) },
	"forced closed":             func(r *rig) { r.force(ForcedClosed) },
	"forced open while open":    func(r *rig) { r.trip(); r.force(ForcedOpen) },
	"forced open, released":     func(r *rig) { r.force(ForcedOpen); r.Release() },
	"open by verdict":           func(r *rig) { r.verdict(Open) },
	"half-open by verdict":      func(r *rig) { r.verdict(HalfOpen) },
	"recovering by verdict":     func(r *rig) { r.verdict(Recovering) },
	"forced open by verdict":    func(r *rig) { r.verdict(ForcedOpen) },
	"forced closed by verdict":  func(r *rig) { r.verdict(ForcedClosed) },
	"a verdict from a clock years ahead": func(r *rig) {
		r.Apply(Verdict{State: Open, Epoch: 1, Next: r.clock.Now().Add(50_000 * time.Hour), Outage: "outage/x"})
	},
	"a verdict waiting for the end of a forced state": func(r *rig) { r.force(ForcedClosed); r.verdict(Open) },
	"wall clock set back":                             func(r *rig) { r.trip(); r.clock.jump(-48 * time.Hour) },
	"wall clock set ahead":                            func(r *rig) { r.verdict(Recovering); r.clock.jump(48 * time.Hour) },
	"held off":                                        func(r *rig) { r.HoldOff(time.Hour); r.trip() },
}

func (r *rig) mustConfigure(c Config) {
	r.t.Helper()
	require.NoError(r.t, r.Configure(c))
}

func (r *rig) force(s State) {
	r.t.Helper()
	require.NoError(r.t, r.Force(Force{State: s, By: "ann", Note: "carrier maintenance", For: time.Hour}))
}

func (r *rig) verdict(s State) {
	r.Apply(Verdict{
		State: s, Epoch: r.Snapshot().Epoch + 1, Reason: Reason{Rule: RuleProbe}, Since: r.clock.Now(),
		Next: r.clock.Now().Add(10 * time.Second), Share: 10, Outage: "outage/carrier-api/eu-west",
	})
}

// No state waits for calls. After it was reached no call is made, and the breaker
// still reaches closed, half-open or recovering, and in the end closed.
func TestEveryStateIsLeftByTimeAlone(t *testing.T) {
	for name, reached := range reach {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Cooldown: 10 * time.Second})
			reached(r)
			began := r.clock.Elapsed()
			for {
				s := r.Snapshot().State
				if s == Closed || s == HalfOpen || s == Recovering {
					break
				}
				require.Less(t, r.clock.Elapsed()-began, 2*time.Hour, "still %v", s)
				r.pass(time.Second)
			}
			r.until(Closed)
			r.call(Success, 0)
		})
	}
}

// The same holds without ticks: refused calls advance the breaker.
func TestRefusedCallsAdvanceTheBreaker(t *testing.T) {
	r := newRig(t, Config{Cooldown: time.Second})
	r.trip()
	r.clock.advance(time.Hour)
	for n := 0; r.Snapshot().State == Open; n++ {
		require.Less(t, n, maxCells*refusalsToLook+1)
		r.Allow(Call{})
	}
}

func TestEdgesOfAnOutage(t *testing.T) {
	r := newRig(t, Config{Cooldown: 10 * time.Second, MinSamples: 4})
	r.calls(4, Failure)
	refusal := r.refused()
	require.Equal(t, Open, refusal.State)
	require.Equal(t, r.clock.Now().Add(10*time.Second), refusal.RetryAt)
	require.Equal(t, "4 of 4 calls failed in 10s (over 50%)", refusal.Reason.String())

	require.Equal(t, 10*time.Second, r.until(HalfOpen))
	require.Equal(t, HalfOpen, r.refused().State, "real traffic never probes")
	r.until(Recovering)
	for r.Snapshot().State == Recovering {
		if p, refusal := r.Allow(Call{}); refusal == nil {
			p.Done(Success)
		} else {
			require.Equal(t, "4 of 4 calls failed in 10s (over 50%)", refusal.Reason.String(), "frozen at the trip")
		}
		r.pass(100 * time.Millisecond)
	}
	require.Equal(t, []State{Open, HalfOpen, Recovering, Closed}, states(r.events()))
	require.Equal(t, int64(4), r.Snapshot().Edges)
}

func TestNoProbeLeadsIntoTheRamp(t *testing.T) {
	r := newRig(t, Config{NoProbe: true})
	r.trip()
	r.until(Recovering)
	require.Equal(t, []State{Open, Recovering}, states(r.events()))
}

func TestFailuresWhileOpenMoveNothing(t *testing.T) {
	r := newRig(t, Config{})
	var late []*Permit
	for range 100 {
		late = append(late, r.allow())
	}
	r.trip()
	before := r.Snapshot()
	for _, p := range late {
		r.clock.advance(time.Millisecond)
		p.Done(Failure)
	}
	after := r.Snapshot()
	require.Equal(t, int64(100), after.Late)
	require.Zero(t, after.Abandoned)
	before.Late, before.Abandoned = after.Late, after.Abandoned
	require.Equal(t, before, after, "the same cooldown, no second trip, no new edge")
	require.Len(t, r.events(), 1)
}

func TestEachTransitionStartsAFreshWindow(t *testing.T) {
	r := newRig(t, Config{Window: time.Hour, FastWindow: time.Hour, Cooldown: time.Second, MaxCooldown: time.Second, RampStep: time.Second})
	r.trip()
	r.until(Closed)
	require.Zero(t, r.Evidence())
	r.calls(9, Failure)
	require.Equal(t, Closed, r.Snapshot().State)
}

func TestASuccessCanDecide(t *testing.T) {
	r := newRig(t, Config{})
	r.calls(9, Failure)
	require.Equal(t, Closed, r.Snapshot().State)
	r.calls(1, Success)
	require.Equal(t, Open, r.Snapshot().State)
	require.Equal(t, Counts{Samples: 10, Failures: 9}, r.Snapshot().Reason.Counts)
}

func TestRefusalsAreNeitherSamplesNorLatencies(t *testing.T) {
	r := newRig(t, Config{})
	r.force(ForcedOpen)
	for range 1000 {
		r.Allow(Call{})
	}
	s := r.Snapshot()
	require.Equal(t, int64(1000), s.Refused)
	require.Zero(t, s.Evidence)
	require.Zero(t, s.Latency)
	require.Zero(t, s.InFlight)
}

func TestCooldownDoublesAndDecays(t *testing.T) {
	r := newRig(t, Config{Cooldown: 10 * time.Second, MaxCooldown: 60 * time.Second, RampStep: time.Second, NoProbe: true})
	for _, want := range []time.Duration{10, 20, 40, 60, 60} {
		r.trip()
		require.Equal(t, want*time.Second, r.until(Recovering))
		r.until(Closed)
	}
	r.pass(3*60*time.Second + time.Second)
	r.trip()
	require.Equal(t, 40*time.Second, r.until(Recovering), "five in a row, minus three MaxCooldowns while closed")
}

func TestCooldownJitterStaysWithinATenthAndTheCap(t *testing.T) {
	for _, luck := range []float64{0, 0.25, 0.999} {
		r := newRig(t, Config{Cooldown: 10 * time.Second, MaxCooldown: 10*time.Second + 500*time.Millisecond})
		r.registry.Random = func() float64 { return luck }
		r.trip()
		require.InDelta(t, 10, r.refused().RetryAt.Sub(r.clock.Now()).Seconds(), 1)
		require.LessOrEqual(t, r.refused().RetryAt.Sub(r.clock.Now()), r.Config().MaxCooldown)
	}
}

func TestHoldOffOnlyProlongs(t *testing.T) {
	r := newRig(t, Config{Cooldown: 10 * time.Second, MaxCooldown: time.Minute})
	r.trip()
	wait := func() time.Duration { return r.refused().RetryAt.Sub(r.clock.Now()) }
	r.HoldOff(5 * time.Second)
	require.Equal(t, 10*time.Second, wait())
	r.HoldOff(30 * time.Second)
	require.Equal(t, 30*time.Second, wait())
	r.HoldOff(time.Hour)
	require.Equal(t, time.Minute, wait(), "capped")
	require.Equal(t, time.Minute, r.until(HalfOpen))
}

func TestRampIsJudgedOnItsOwnSamples(t *testing.T) {
	r := newRig(t, Config{RampMinSamples: 3, Cooldown: time.Second, NoProbe: true})
	r.trip()
	r.until(Recovering)
	for failed := 0; failed < 3; {
		if p, refusal := r.Allow(Call{}); refusal == nil {
			p.Done(Failure)
			failed++
		}
	}
	s := r.Snapshot()
	require.Equal(t, Open, s.State)
	require.Equal(t, Counts{Samples: 3, Failures: 3}, s.Reason.Counts)
}

// A quiet key lets a call pass now and then, and advances by successes. Without calls
// a step lasts four times as long.
func TestRampOfAQuietKey(t *testing.T) {
	r := newRig(t, Config{Cooldown: time.Second, RampStep: 10 * time.Second, RampMinSamples: 2, NoProbe: true})
	r.trip()
	r.until(Recovering)
	passed := 0
	for range 4 {
		if p, refusal := r.Allow(Call{}); refusal == nil {
			p.Done(Success)
			passed++
		}
		r.pass(5 * time.Second)
	}
	require.Equal(t, 4, passed, "one call passes in each half step at 10 %")
	require.Equal(t, 50, r.Snapshot().Share, "two successes in a step advance the ramp")

	silent := newRig(t, Config{Cooldown: time.Second, RampStep: 10 * time.Second, NoProbe: true})
	silent.trip()
	silent.until(Recovering)
	require.Equal(t, 4*4*10*time.Second, silent.until(Closed))
}

func TestEarlyCallsAreMadeUpFor(t *testing.T) {
	var r rampShare
	r.set(10)
	now := time.Duration(0)
	admitted := 0
	for i := range 1000 {
		if i%100 == 50 {
			now += time.Minute
		}
		if r.admit(now, time.Minute) {
			admitted++
		}
	}
	require.Equal(t, 100, admitted, "early calls do not increase the share")
}

func TestObserveRefusesNothingAndCountsAll(t *testing.T) {
	r := newRig(t, Config{Mode: Observe})
	r.trip()
	for range 5 {
		r.call(Failure, time.Millisecond)
	}
	s := r.Snapshot()
	require.Equal(t, Open, s.State)
	require.Equal(t, int64(5), s.Refused, "would have been refused")
	require.Zero(t, s.Evidence.Window, "and so would have left no sample")
	require.Zero(t, s.Late)
}

func TestOffCountsNothing(t *testing.T) {
	r := newRig(t, Config{Mode: Off})
	r.calls(100, Failure)
	s := r.Snapshot()
	require.Equal(t, Closed, s.State)
	require.Zero(t, s.Evidence)
}

func TestForced(t *testing.T) {
	r := newRig(t, Config{})
	r.force(ForcedOpen)
	refusal := r.refused()
	require.Equal(t, Reason{Rule: RuleForced, By: "ann", Note: "carrier maintenance"}, refusal.Reason)
	require.Equal(t, r.clock.Now().Add(time.Hour), refusal.RetryAt)
	require.True(t, r.Release())
	require.Equal(t, Recovering, r.Snapshot().State, "traffic returns gradually")
	require.False(t, r.Release())

	r = newRig(t, Config{})
	r.force(ForcedClosed)
	r.calls(100, Failure)
	require.Equal(t, ForcedClosed, r.Snapshot().State)
	require.Equal(t, 100, r.Evidence().Window.Failures, "counted nevertheless")
	require.Equal(t, time.Hour, r.until(Closed))

	require.EqualError(t, r.Force(Force{}), `State: closed is not one of forced-open, forced-closed
By: is missing; say who decided
Note: is missing; say why
For: 0s is out of range; over 0 and at most 168h0m0s`)
}

func TestApply(t *testing.T) {
	r := newRig(t, Config{})
	r.verdict(Open)
	require.Equal(t, "outage/carrier-api/eu-west", r.refused().Outage)
	r.Apply(Verdict{State: Closed, Epoch: 1})
	require.Equal(t, Open, r.Snapshot().State, "not newer")
	r.verdict(Recovering)
	require.Equal(t, 10, r.Snapshot().Share)
	r.verdict(Closed)
	require.Equal(t, Closed, r.Snapshot().State)
	require.Empty(t, r.Snapshot().Outage)
	for _, e := range r.events() {
		require.False(t, e.Local)
	}
}

func TestForceHoldsAVerdictBack(t *testing.T) {
	r := newRig(t, Config{})
	r.force(ForcedClosed)
	r.verdict(Open)
	require.Equal(t, ForcedClosed, r.Snapshot().State)
	require.True(t, r.Release())
	require.Equal(t, Open, r.Snapshot().State)
}

func TestAStaleVerdictOfOpenEndsByItself(t *testing.T) {
	r := newRig(t, Config{Latency: time.Second, ProbeInterval: time.Second})
	r.verdict(Open)
	require.Equal(t, 10*time.Second+4*3*2*time.Second, r.until(HalfOpen))
}
