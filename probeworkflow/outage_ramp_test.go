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

// onStep runs f once, when the ramp's step of that share has been published.
func (i *incident) onStep(share int, f func(v breaker.Verdict)) {
	before, done := i.heard, false
	i.heard = func(n int, v breaker.Verdict) {
		before(n, v)
		if v.State == breaker.Recovering && v.Share == share && !done {
			done = true
			f(v)
		}
	}
}

func TestRamp_MovesOnByItsOwnCalls(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.heard = i.busy
	i.run(settings())
	assert.Equal(t, wholeStory, i.states())
	assert.Len(t, i.probed, 1, "before the ramp; no step needs one")
}

// A step moves on by evidence, not by silence: where customers are too few, one
// synthetic call stands in for them.
func TestRamp_QuietMovesOnByAProbe(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.run(settings())
	assert.Equal(t, wholeStory, i.states())
	require.Len(t, i.probed, 4)
	for _, in := range i.probed[1:] {
		assert.Equal(t, 1, in.Successes)
	}
	assert.Equal(t, 3+3, i.result().Probes)
	assert.Equal(t, 6*time.Second, i.times[3].Sub(i.times[2]), "at the end of the step")
}

// What the step before has shown is not shown again.
func TestRamp_CountsTheCallsOfEachStepAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		calls  map[int]int // by share, over all of the ramp
		probes int
	}{
		"enough at each step":       {map[int]int{10: 5, 50: 10, 100: 15}, 0},
		"enough at the first alone": {map[int]int{10: 100}, 2},
		"too few at the last":       {map[int]int{10: 5, 50: 10, 100: 14}, 1},
		"too few at each":           {map[int]int{10: 4, 50: 8, 100: 12}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			for share, calls := range c.calls {
				i.onStep(share, func(v breaker.Verdict) { i.send(onRamp("worker-1", v, calls, 0)) })
			}
			i.run(settings())
			assert.Equal(t, wholeStory, i.states())
			assert.Len(t, i.probed[1:], c.probes)
		})
	}
}

// The calls of all workers together make a step.
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

// The dependency's own minimum decides, not the one for closed.
func TestRamp_TripsOnAReport(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.heard = i.busy
	var at time.Time
	i.onStep(50, func(v breaker.Verdict) {
		i.at(2*time.Second, func() {
			at = i.env.Now()
			i.send(onRamp("worker-1", v, 6, 5))
		})
	})
	i.run(settings())
	assert.Equal(t, append([]string{"open", "half-open", "recovering 10%", "recovering 50%"}, wholeStory...), i.states())
	reopened := i.of(breaker.Open)[1]
	assert.True(t, at.Equal(i.times[4]), "at once")
	assert.Equal(t, "5 of 6 calls failed in 1m0s (over 50%)", reopened.Reason.String())
	assert.True(t, start.Equal(reopened.Since), "it is the same outage")
	cooldowns := i.cooldowns()
	about(t, 10*time.Second, cooldowns[0])
	about(t, 20*time.Second, cooldowns[1])
	assert.Equal(t, 2, i.result().Rounds)
}

func TestRamp_TripsOnAProbeInItsStead(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.probe = func(n int) probeworkflow.Finding {
		if n == 3 {
			return probeworkflow.Failed
		}
		return probeworkflow.Passed
	}
	i.run(settings())
	assert.Equal(t, append([]string{"open", "half-open", "recovering 10%", "recovering 50%"}, wholeStory...), i.states())
	assert.Equal(t, breaker.Reason{Rule: breaker.RuleProbe}, i.of(breaker.Open)[1].Reason)
	about(t, 20*time.Second, i.cooldowns()[1])
}

// A ramp may not wedge where nobody can probe.
func TestRamp_MovesOnWhereNobodyCanProbe(t *testing.T) {
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
		assert.Equal(t, wholeStory, i.states(), finding)
	}
}

// The fleet's verdict is worth more than one synthetic call that got through.
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
			assert.Equal(t, append([]string{"open", "half-open", "recovering 10%"}, wholeStory...), i.states())
			assert.Equal(t, breaker.RuleFailureRate, i.of(breaker.Open)[1].Reason.Rule)
		})
	}
}

// Who reports late reports on calls of another time.
func TestRamp_IsJudgedOnItsOwnCallsAlone(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(v breaker.Verdict) fleet.Report{
		"of an older verdict": func(v breaker.Verdict) fleet.Report {
			r := onRamp("worker-2", v, 20, 20)
			r.Epoch = v.Epoch - 1
			return r
		},
		"of no verdict": func(v breaker.Verdict) fleet.Report {
			r := onRamp("worker-2", v, 20, 20)
			r.Epoch = 0
			return r
		},
		"of a worker that was still closed": func(v breaker.Verdict) fleet.Report {
			r := onRamp("worker-2", v, 20, 20)
			r.State = breaker.Closed
			return r
		},
		"of a worker that was open": func(v breaker.Verdict) fleet.Report {
			r := onRamp("worker-2", v, 20, 20)
			r.State = breaker.Open
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.onStep(10, func(v breaker.Verdict) { i.send(of(v)) })
			i.run(settings())
			assert.Equal(t, wholeStory, i.states())
			assert.Len(t, i.probed[1:], 3, "nor does it make a step busy")
		})
	}
}

// The ramp is one: what the first step's calls showed convicts in the second,
// also when it is told with the first step's epoch.
func TestRamp_IsJudgedOnAllOfItsSteps(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	var first breaker.Verdict
	i.onStep(10, func(v breaker.Verdict) { first = v })
	i.onStep(50, func(breaker.Verdict) { i.send(onRamp("worker-1", first, 6, 6)) })
	i.run(settings())
	assert.Equal(t, append([]string{"open", "half-open", "recovering 10%", "recovering 50%"}, wholeStory...), i.states())
}

// Nor does the ramp before convict the next one.
func TestRamp_BeginsAfresh(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onStep(10, func(v breaker.Verdict) { i.send(onRamp("worker-1", v, 20, 20)) })
	i.run(settings())
	assert.Equal(t, append([]string{"open", "half-open", "recovering 10%"}, wholeStory...), i.states())
}

func TestRamp_IsNotConvictedByOneBadWorkerAmongHealthyOnes(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.heard = i.busy
	i.onStep(10, func(v breaker.Verdict) { i.send(onRamp("worker-2", v, 100, 100)) })
	i.run(settings())
	assert.Equal(t, wholeStory, i.states())
	assert.Equal(t, 2, i.result().Workers)
}

// Without a synthetic call the customers' first calls decide.
func TestRamp_WithoutAProbeTripsOnAReport(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onStep(10, func(v breaker.Verdict) { i.send(onRamp("worker-1", v, 5, 5)) })
	i.run(withoutProbe())
	assert.Equal(t, []string{"open", "recovering 10%", "open", "recovering 10%", "recovering 50%", "recovering 100%", "closed"}, i.states())
	about(t, 20*time.Second, i.cooldowns()[1])
}

func TestRamp_HearsTheReportThatArrivesAsItsLastStepEnds(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onStep(100, func(v breaker.Verdict) {
		i.at(5*time.Second-time.Millisecond, func() { i.sendUnnoticed(onRamp("worker-1", v, 6, 6)) })
	})
	i.run(withoutProbe())
	assert.Equal(t, []string{"open", "recovering 10%", "recovering 50%", "recovering 100%"}, i.states()[:4])
	require.Greater(t, len(i.states()), 5)
	assert.Equal(t, "open", i.states()[4], "not closed first")
}
