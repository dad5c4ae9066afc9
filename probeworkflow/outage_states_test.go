package probeworkflow_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

func TestOutage_RunsFromOpenToClosed(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	i.run(settings())

	assert.Equal(t, allStates, i.states())
	assert.Equal(t, i.verdicts, i.ordered(), "published in order")
	// Epochs are greater than those of every earlier outage, even a terminated one.
	assert.Equal(t, start.UnixMilli(), i.polls[0].Poll.Round)
	assert.Equal(t, start.UnixMilli()+1, i.verdicts[0].Epoch)
	for n, v := range i.verdicts {
		assert.True(t, start.Equal(v.Since), "the time of the first open state")
		assert.Equal(t, "outage/carrier-api/eu-west", v.Outage)
		if n > 0 {
			assert.Greater(t, v.Epoch, i.verdicts[n-1].Epoch)
		}
		if v.State != breaker.Closed {
			assert.Equal(t, breaker.RuleFailureRate, v.Reason.Rule, "%v has the reason of the outage", v.State)
			assert.Equal(t, 20, v.Reason.Failures)
		}
	}

	// Each state ends at its announced time.
	opened, probing, ramp, closed := i.verdicts[0], i.verdicts[1], i.verdicts[2:5], i.verdicts[5]
	assert.True(t, opened.Next.Equal(i.times[1]))
	about(t, 10*time.Second, opened.Next.Sub(start))
	// The upper bound is three calls of two seconds, one second apart.
	assert.Equal(t, 9*time.Second, probing.Next.Sub(i.times[1]))
	assert.Equal(t, time.Second, i.times[2].Sub(i.times[1]), "half-open ends with the probes")
	for step, v := range ramp {
		assert.Equal(t, step, v.Step)
		assert.Equal(t, []int{10, 50, 100}[step], v.Share)
		assert.True(t, v.Next.Equal(i.times[3+step]), "step %d", step)
		assert.Equal(t, 5*time.Second, v.Next.Sub(i.times[2+step]))
	}
	assert.True(t, closed.Next.IsZero(), "closed has no planned end")
	assert.Zero(t, closed.Reason)
	assert.Zero(t, closed.Share)
}

func TestOutage_EndsWithAReport(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.probe = func(n int) probeworkflow.Finding {
		if n == 1 {
			return probeworkflow.Failed
		}
		return probeworkflow.Passed
	}
	i.onVerdict = func(n int, v breaker.Verdict) {
		i.busy(n, v)
		if v.State == breaker.Open {
			i.send(down("worker-2"))
		}
	}
	i.run(settings())
	report := i.result()
	cooldowns := i.cooldowns()
	require.Len(t, cooldowns, 2)
	assert.Equal(t, key, report.Key)
	assert.Equal(t, "recovered", report.Outcome)
	assert.True(t, start.Equal(report.Since))
	assert.True(t, i.times[len(i.times)-1].Equal(report.Ended))
	assert.Equal(t, "20 of 20 calls failed in 1m0s (over 50%)", report.Reason, "the first reason")
	assert.Equal(t, 2, report.Rounds)
	assert.Equal(t, 4, report.Probes, "one failed, three passed")
	assert.Equal(t, 2, report.Workers)
	require.Len(t, report.Seconds, 3)
	assert.InDelta(t, (cooldowns[0] + cooldowns[1]).Seconds(), report.Seconds["open"], 1e-6)
	assert.InDelta(t, 2, report.Seconds["half-open"], 1e-6)
	assert.InDelta(t, 15, report.Seconds["recovering"], 1e-6)
	assert.InDelta(t, report.Ended.Sub(report.Since).Seconds(), report.Seconds["open"]+report.Seconds["half-open"]+report.Seconds["recovering"], 1e-6)
}

func TestOutage_ProbesThroughAChildWorkflow(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	var child *workflow.Info
	i.env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) { child = info })
	s := settings()
	s.Call.Args = []probeworkflow.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`{"id":"PROBE-1"}`)}}
	i.run(s)
	require.Len(t, i.probed, 1)
	assert.Equal(t, probeworkflow.ProbeInput{Key: key, Call: *s.Call, Successes: 3, Timeout: 2 * time.Second, Interval: time.Second}, i.probed[0])
	assert.Equal(t, "probe/carrier-api/eu-west", child.WorkflowExecution.ID)
	// Each of three calls may wait for a worker, run for twice its timeout, and pause.
	assert.Equal(t, 3*(8+2*2+1+1)*time.Second, child.WorkflowExecutionTimeout, "the timeout always ends it")
}

// A probe of a slow tool gets the tool's own latency threshold. Otherwise it would
// always fail, and the key would never close.
func TestOutage_ProbesWithinTheThresholdOfTheTool(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	var timeout time.Duration
	i.env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
		timeout = info.WorkflowExecutionTimeout
	})
	s := settings()
	s.Breaker.ToolLatency = map[string]time.Duration{s.Call.Activity: 20 * time.Second}
	i.run(s)
	require.Len(t, i.probed, 1)
	assert.Equal(t, 20*time.Second, i.probed[0].Timeout)
	assert.Equal(t, 3*(8+2*20+1+1)*time.Second, timeout)
	probing := i.of(breaker.HalfOpen)[0]
	assert.Equal(t, 3*(20+1)*time.Second, probing.Next.Sub(i.times[1]))
}

func TestOutage_DoublesTheCooldownAfterEachFailedProbe(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	i.probe = func(n int) probeworkflow.Finding {
		if n <= 5 {
			return probeworkflow.Failed
		}
		return probeworkflow.Passed
	}
	i.run(settings())
	cooldowns := i.cooldowns()
	require.Len(t, cooldowns, 6)
	for n, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 40 * time.Second, 40 * time.Second, 40 * time.Second} {
		about(t, want, cooldowns[n])
	}
	opened := i.of(breaker.Open)
	assert.Equal(t, breaker.RuleFailureRate, opened[0].Reason.Rule)
	for _, v := range opened[1:] {
		assert.Equal(t, breaker.Reason{Rule: breaker.RuleProbe}, v.Reason)
	}
	assert.Equal(t, 6, i.result().Rounds)
}

// A hold-off, as by Retry-After, extends the cooldown up to MaxCooldown and never
// shortens it.
func TestOutage_ExtendsTheCooldownByAHoldOff(t *testing.T) {
	t.Parallel()
	for holdOff, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, 5 * time.Second: 10 * time.Second, 30 * time.Second: 30 * time.Second,
		time.Hour: 40 * time.Second, -time.Hour: 10 * time.Second, 1<<63 - 1: 40 * time.Second,
	} {
		i := newIncident(t)
		i.onVerdict = i.busy
		r := down("worker-1")
		r.HoldOff = holdOff
		i.runWith(settings(), r)
		about(t, want, i.cooldowns()[0])
	}
}

// Inconclusive probes are no evidence, as in a region without workers. They must
// neither extend the cooldown nor start the ramp.
func TestOutage_KeepsTheCooldownAfterAnInconclusiveProbe(t *testing.T) {
	t.Parallel()
	for _, finding := range []probeworkflow.Finding{probeworkflow.Inconclusive, broken} {
		t.Run(string(finding), func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.onVerdict = i.busy
			i.probe = func(n int) probeworkflow.Finding {
				if n <= 4 {
					return finding
				}
				return probeworkflow.Passed
			}
			i.run(settings())
			cooldowns := i.cooldowns()
			require.Len(t, cooldowns, 5)
			for _, c := range cooldowns {
				about(t, 10*time.Second, c)
			}
			for _, v := range i.of(breaker.Open) {
				assert.Equal(t, breaker.RuleFailureRate, v.Reason.Rule, "the reason stays the same")
			}
			assert.Equal(t, allStates[2:], i.states()[len(i.states())-4:])
		})
	}
}

// A probe that is always inconclusive, as with a rate-limited test account, must
// not keep the key open without end. The ramp then decides.
func TestOutage_StartsTheRampAfterFiveInconclusiveRounds(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	i.probe = func(int) probeworkflow.Finding { return probeworkflow.Inconclusive }
	i.run(settings())
	var states []string
	for range 5 {
		states = append(states, "open", "half-open")
	}
	assert.Equal(t, append(states, allStates[2:]...), i.states())
}

// A probe workflow that does not complete in time is inconclusive.
func TestOutage_ContinuesWhenTheProbeDoesNotComplete(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	i.probing = 24 * time.Hour
	i.probe = func(n int) probeworkflow.Finding {
		if n == 2 {
			i.probing = time.Second
		}
		return probeworkflow.Passed
	}
	i.at(12*time.Hour, func() { i.env.CancelWorkflowByID(probeworkflow.ProbeID(key), "") })
	i.run(settings())
	assert.Equal(t, append([]string{"open", "half-open"}, allStates...), i.states())
	about(t, 10*time.Second, i.cooldowns()[1])
}

// For a dependency without a synthetic call, the first calls of the ramp decide.
func TestOutage_WithoutAProbeStartsTheRamp(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.run(withoutProbe())
	assert.Equal(t, []string{"open", "recovering 10%", "recovering 50%", "recovering 100%", "closed"}, i.states())
	assert.Empty(t, i.probed)
	about(t, 10*time.Second, i.times[1].Sub(start))
	assert.Equal(t, 0, i.result().Probes)
}

// Keys that opened together are not probed together.
func TestOutage_SpreadsItsCooldownsByATenth(t *testing.T) {
	t.Parallel()
	const rounds = 200
	i := newIncident(t)
	i.onVerdict = i.busy
	i.probe = func(n int) probeworkflow.Finding {
		if n < rounds {
			return probeworkflow.Failed
		}
		return probeworkflow.Passed
	}
	level := settings()
	level.Breaker.MaxCooldown = level.Breaker.Cooldown
	i.run(level)
	cooldowns := i.cooldowns()
	require.Len(t, cooldowns, rounds)
	low, high, sum := cooldowns[0], cooldowns[0], time.Duration(0)
	for _, c := range cooldowns {
		about(t, 10*time.Second, c)
		low, high, sum = min(low, c), max(high, c), sum+c
	}
	// The cooldowns cover the whole range evenly.
	assert.Less(t, low, 9200*time.Millisecond)
	assert.Greater(t, high, 10800*time.Millisecond)
	assert.InDelta(t, 10, (sum / rounds).Seconds(), 0.15)
}

func TestOutage_EndsWhenCancelledInAnyState(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after time.Duration
		last  string
	}{
		"open":       {5 * time.Second, "open"},
		"half-open":  {11500 * time.Millisecond, "half-open"},
		"recovering": {17 * time.Second, "recovering 10%"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.onVerdict = i.busy
			i.probing = 4 * time.Second
			i.at(c.after, i.env.CancelWorkflow)
			i.run(settings())
			assert.True(t, temporal.IsCanceledError(i.env.GetWorkflowError()))
			assert.Equal(t, []string{c.last, "closed"}, i.states()[len(i.states())-2:], "a cancelled outage closes the key")
		})
	}
	t.Run("probing on the ramp", func(t *testing.T) {
		t.Parallel()
		i := newIncident(t)
		i.onStep(10, func(breaker.Verdict) { i.at(5500*time.Millisecond, i.env.CancelWorkflow) })
		i.run(settings())
		assert.True(t, temporal.IsCanceledError(i.env.GetWorkflowError()))
		assert.Equal(t, append(slices.Clone(allStates[:3]), "closed"), i.states())
	})
	t.Run("closing", func(t *testing.T) {
		t.Parallel()
		i := newIncident(t)
		i.env.OnActivity(probeworkflow.PublishActivity, anything, anything).Return(nil).After(time.Hour)
		i.env.SetOnTimerScheduledListener(func(_ string, d time.Duration) {
			if d == 10*time.Second { // The wait for the publish activity.
				i.at(5*time.Second, i.env.CancelWorkflow)
			}
		})
		i.run(withoutProbe())
		assert.True(t, temporal.IsCanceledError(i.env.GetWorkflowError()))
	})
}

func TestStatus_FollowsTheStates(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.probing = 4 * time.Second
	statuses, details := map[string]probeworkflow.Status{}, map[string]string{}
	look := func(name string, after time.Duration) {
		i.at(after, func() { statuses[name], details[name] = i.status(), i.details() })
	}
	look("open", 5*time.Second)
	look("half-open", 12*time.Second)
	look("recovering", 17*time.Second)
	i.onVerdict = func(n int, v breaker.Verdict) {
		i.busy(n, v)
		if v.State == breaker.Closed {
			statuses["closed"] = i.status()
		}
	}
	i.runWith(settings(), down("worker-1"), down("worker-2"))

	for name, status := range statuses {
		assert.Equal(t, name, status.Verdict.State.String())
		assert.Equal(t, i.of(status.Verdict.State)[0], status.Verdict, "the published verdict")
	}
	assert.Nil(t, statuses["open"].LastProbe)
	require.NotNil(t, statuses["recovering"].LastProbe)
	assert.Equal(t, probeworkflow.Passed, statuses["recovering"].LastProbe.Finding)
	assert.Len(t, statuses["open"].Reports, 2)
	require.Len(t, statuses["recovering"].Reports, 1)
	assert.Equal(t, breaker.Recovering, statuses["recovering"].Reports[0].State, "only the ramp's reports")
	assert.Empty(t, statuses["closed"].Reports)

	for name, lines := range map[string][]string{
		"open": {
			"### carrier-api/eu-west is **open**", "- down since 2026-03-01 14:00:00 UTC", "- reason: 40 of 40 calls failed",
			"- next probe at 14:00:", "| worker-1 | 20 | 20 | 0 | 0 |",
		},
		"half-open":  {"is **half-open**", "customers' calls are refused"},
		"recovering": {"is **recovering**", "- letting 10% of calls pass until 14:00:", "- last probes: **passed** (3 calls)", "| worker-1 | 20 | 0 | 0 | 0 |"},
	} {
		for _, line := range lines {
			assert.Contains(t, details[name], line)
		}
	}
	assert.Contains(t, i.details(), "is **closed**")
	assert.False(t, strings.Contains(i.details(), "next probe"))
}

// Each state ends by time, even if the board is out of reach.
func TestPublishing_TemporaryErrorsDoNotStopTheOutage(t *testing.T) {
	t.Parallel()
	reachable := newIncident(t)
	reachable.onVerdict = reachable.busy
	reachable.run(settings())

	i := newIncident(t)
	failed := 0
	i.env.OnActivity(probeworkflow.PublishActivity, anything, anything).Return(func(ctx context.Context, e entry) error {
		if i.env.Now().Before(start.Add(13*time.Second)) && failed < 8 {
			failed++
			return errors.New("the board is out of reach")
		}
		return i.fakePublish(ctx, e)
	})
	i.onVerdict = i.busy
	i.run(settings())
	assert.Equal(t, 8, failed)
	assert.Equal(t, allStates, i.states(), "failed verdicts are published later")
	assert.Equal(t, reachable.result().Seconds, i.result().Seconds, "no state waits for the board")
}

func TestPublishing_PermanentErrorsDoNotStopTheOutage(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.env.OnActivity(probeworkflow.PublishActivity, anything, anything).Return(temporal.NewNonRetryableApplicationError("", "Gone", nil))
	i.run(withoutProbe())
	report := i.result()
	assert.Equal(t, "recovered", report.Outcome)
	assert.InDelta(t, 15, report.Seconds["recovering"], 1e-6)
}

// The end of an outage waits for the board, but not for long.
func TestPublishing_HangingDelaysOnlyTheEnd(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.env.OnActivity(probeworkflow.PublishActivity, anything, anything).Return(nil).After(time.Hour)
	i.run(withoutProbe())
	report := i.result()
	assert.Equal(t, "recovered", report.Outcome)
	inStates := report.Seconds["open"] + report.Seconds["recovering"]
	assert.InDelta(t, 15, report.Seconds["recovering"], 1e-6)
	assert.InDelta(t, inStates+10, report.Ended.Sub(report.Since).Seconds(), 1e-6)
}
