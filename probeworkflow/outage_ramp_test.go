package probeworkflow_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// onStep runs f once, when the ramp's step with this share is published.
func (i *incident) onStep(share int, f func(v breaker.Verdict)) {
	before, done := i.onVerdict, false
	i.onVerdict = func(n int, v breaker.Verdict) {
		before(n, v)
		if v.State == breaker.Recovering && v.Share == share && !done {
			done = true
			f(v)
		}
	}
}

func TestRamp_AdvancesByItsOwnCalls(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	i.run(settings())
	assert.Equal(t, allStates, i.states())
	assert.Len(t, i.probed, 1, "the round before the ramp; no step needs a probe")
}

// A step needs evidence. If it has too few calls, it makes one synthetic call.
func TestRamp_WithTooFewCallsAdvancesByAProbe(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.run(settings())
	assert.Equal(t, allStates, i.states())
	require.Len(t, i.probed, 4)
	for _, in := range i.probed[1:] {
		assert.Equal(t, 1, in.Successes)
	}
	assert.Equal(t, 3+3, i.result().Probes)
	assert.Equal(t, 6*time.Second, i.times[3].Sub(i.times[2]), "at the end of the step")
}

// The calls of the step before are not counted again.
func TestRamp_CountsTheCallsOfEachStepSeparately(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		calls  map[int]int // by share, over all of the ramp
		probes int
	}{
		"enough at each step":      {map[int]int{10: 5, 50: 10, 100: 15}, 0},
		"enough at the first only": {map[int]int{10: 100}, 2},
		"too few at the last":      {map[int]int{10: 5, 50: 10, 100: 14}, 1},
		"too few at each":          {map[int]int{10: 4, 50: 8, 100: 12}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			for share, calls := range c.calls {
				i.onStep(share, func(v breaker.Verdict) { i.send(onRamp("worker-1", v, calls, 0)) })
			}
			i.run(settings())
			assert.Equal(t, allStates, i.states())
			assert.Len(t, i.probed[1:], c.probes)
		})
	}
}

// The calls of all workers together are the evidence for a step.
func TestRamp_CountsTheCallsOfAllWorkers(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onStep(10, func(v breaker.Verdict) {
		for _, worker := range []string{"a", "b", "c", "d", "e"} {
			i.send(onRamp(worker, v, 1, 0))
		}
	})
	i.run(settings())
	assert.Len(t, i.probed[1:], 2)
}

// The minimum of samples is the one for the ramp, not the one for closed.
func TestRamp_TripsOnAReport(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	var at time.Time
	i.onStep(50, func(v breaker.Verdict) {
		i.at(2*time.Second, func() {
			at = i.env.Now()
			i.send(onRamp("worker-1", v, 6, 5))
		})
	})
	i.run(settings())
	assert.Equal(t, append([]string{"open", "half-open", "recovering 10%", "recovering 50%"}, allStates...), i.states())
	reopened := i.of(breaker.Open)[1]
	assert.True(t, at.Equal(i.times[4]), "at once")
	assert.Equal(t, "5 of 6 calls failed in 1m0s (over 50%)", reopened.Reason.String())
	assert.True(t, start.Equal(reopened.Since), "the same outage")
	cooldowns := i.cooldowns()
	about(t, 10*time.Second, cooldowns[0])
	about(t, 20*time.Second, cooldowns[1])
	assert.Equal(t, 2, i.result().Rounds)
}

func TestRamp_TripsOnAFailedProbe(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.probe = func(n int) probeworkflow.Finding {
		if n == 3 {
			return probeworkflow.Failed
		}
		return probeworkflow.Passed
	}
	i.run(settings())
	assert.Equal(t, append([]string{"open", "half-open", "recovering 10%", "recovering 50%"}, allStates...), i.states())
	assert.Equal(t, breaker.Reason{Rule: breaker.RuleProbe}, i.of(breaker.Open)[1].Reason)
	about(t, 20*time.Second, i.cooldowns()[1])
}

// A ramp must not get stuck if no worker can probe.
func TestRamp_AdvancesIfNoWorkerCanProbe(t *testing.T) {
	t.Parallel()
	for _, finding := range []probeworkflow.Finding{probeworkflow.Inconclusive, broken} {
		i := newIncident(t)
		i.probe = func(n int) probeworkflow.Finding {
			if n == 1 {
				return probeworkflow.Passed
			}
			return finding
		}
		i.run(settings())
		assert.Equal(t, allStates, i.states(), finding)
	}
}

// The reports of the fleet take precedence over one synthetic call.
func TestRamp_TripsOnAReportThatComesDuringTheProbe(t *testing.T) {
	t.Parallel()
	for name, finding := range map[string]probeworkflow.Finding{"passed": probeworkflow.Passed, "inconclusive": probeworkflow.Inconclusive} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.probe = func(n int) probeworkflow.Finding {
				if n != 2 {
					return probeworkflow.Passed
				}
				return finding
			}
			i.onStep(10, func(v breaker.Verdict) {
				i.at(5500*time.Millisecond, func() { i.send(onRamp("worker-1", v, 6, 6)) })
			})
			i.run(settings())
			assert.Equal(t, append([]string{"open", "half-open", "recovering 10%"}, allStates...), i.states())
			assert.Equal(t, breaker.RuleFailureRate, i.of(breaker.Open)[1].Reason.Rule)
		})
	}
}

// A late report is about calls before the ramp.
func TestRamp_IgnoresReportsFromBeforeIt(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(v breaker.Verdict) fleet.Report{
		"under an older verdict": func(v breaker.Verdict) fleet.Report {
			r := onRamp("worker-2", v, 20, 20)
			r.Epoch = v.Epoch - 1
			return r
		},
		"under no verdict": func(v breaker.Verdict) fleet.Report {
			r := onRamp("worker-2", v, 20, 20)
			r.Epoch = 0
			return r
		},
		"while still closed": func(v breaker.Verdict) fleet.Report {
			r := onRamp("worker-2", v, 20, 20)
			r.State = breaker.Closed
			return r
		},
		"while open": func(v breaker.Verdict) fleet.Report {
			r := onRamp("worker-2", v, 20, 20)
			r.State = breaker.Open
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.onStep(10, func(v breaker.Verdict) { i.send(late(v)) })
			i.run(settings())
			assert.Equal(t, allStates, i.states())
			assert.Len(t, i.probed[1:], 3, "the report is no evidence for a step")
		})
	}
}

// All steps are one ramp. A report of the first step's calls can trip the second
// step, even with the first step's epoch.
func TestRamp_IsJudgedOnAllOfItsSteps(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	var first breaker.Verdict
	i.onStep(10, func(v breaker.Verdict) { first = v })
	i.onStep(50, func(breaker.Verdict) { i.send(onRamp("worker-1", first, 6, 6)) })
	i.run(settings())
	assert.Equal(t, append([]string{"open", "half-open", "recovering 10%", "recovering 50%"}, allStates...), i.states())
}

// The reports of one ramp do not count in the next.
func TestRamp_StartsWithoutReports(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onStep(10, func(v breaker.Verdict) { i.send(onRamp("worker-1", v, 20, 20)) })
	i.run(settings())
	assert.Equal(t, append([]string{"open", "half-open", "recovering 10%"}, allStates...), i.states())
}

func TestRamp_DoesNotTripOnOneOutlier(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	i.onStep(10, func(v breaker.Verdict) { i.send(onRamp("worker-2", v, 100, 100)) })
	i.run(settings())
	assert.Equal(t, allStates, i.states())
	assert.Equal(t, 2, i.result().Workers)
}

// Without a probe, the first calls of the ramp decide.
func TestRamp_WithoutAProbeTripsOnAReport(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onStep(10, func(v breaker.Verdict) { i.send(onRamp("worker-1", v, 5, 5)) })
	i.run(withoutProbe())
	assert.Equal(t, []string{"open", "recovering 10%", "open", "recovering 10%", "recovering 50%", "recovering 100%", "closed"}, i.states())
	about(t, 20*time.Second, i.cooldowns()[1])
}

func TestRamp_JudgesAReportThatArrivesAsItsLastStepEnds(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onStep(100, func(v breaker.Verdict) {
		i.at(5*time.Second-time.Millisecond, func() { i.sendWithNextTask(onRamp("worker-1", v, 6, 6)) })
	})
	i.run(withoutProbe())
	assert.Equal(t, []string{"open", "recovering 10%", "recovering 50%", "recovering 100%"}, i.states()[:4])
	require.Greater(t, len(i.states()), 5)
	assert.Equal(t, "open", i.states()[4], "not closed first")
}
