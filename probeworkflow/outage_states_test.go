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
	i.heard = i.busy
	i.run(settings())

	assert.Equal(t, wholeStory, i.states())
	assert.Equal(t, i.verdicts, i.ordered(), "published in order")
	// Past those of any outage before, a terminated one included.
	assert.Equal(t, start.UnixMilli(), i.asked[0].Poll.Round)
	assert.Equal(t, start.UnixMilli()+1, i.verdicts[0].Epoch)
	for n, v := range i.verdicts {
		assert.True(t, start.Equal(v.Since), "since when it was opened, to the end")
		assert.Equal(t, "outage/carrier-api/eu-west", v.Outage)
		if n > 0 {
			assert.Greater(t, v.Epoch, i.verdicts[n-1].Epoch)
		}
		if v.State != breaker.Closed {
			assert.Equal(t, breaker.RuleFailureRate, v.Reason.Rule, "%v says why it was opened", v.State)
			assert.Equal(t, 20, v.Reason.Failures)
		}
	}

	// Each state ends when it was announced to.
	opened, probing, ramp, closed := i.verdicts[0], i.verdicts[1], i.verdicts[2:5], i.verdicts[5]
	assert.True(t, opened.Next.Equal(i.times[1]))
	about(t, 10*time.Second, opened.Next.Sub(start))
	// Three calls of at most two seconds, a second apart: an upper bound.
	assert.Equal(t, 9*time.Second, probing.Next.Sub(i.times[1]))
	assert.Equal(t, time.Second, i.times[2].Sub(i.times[1]), "probing ends when the probes do")
	for step, v := range ramp {
		assert.Equal(t, step, v.Step)
		assert.Equal(t, []int{10, 50, 100}[step], v.Share)
		assert.True(t, v.Next.Equal(i.times[3+step]), "step %d", step)
		assert.Equal(t, 5*time.Second, v.Next.Sub(i.times[2+step]))
	}
	assert.True(t, closed.Next.IsZero(), "closed is due to end never")
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
	i.heard = func(n int, v breaker.Verdict) {
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
	assert.Equal(t, "20 of 20 calls failed in 1m0s (over 50%)", report.Reason, "why it was opened first")
	assert.Equal(t, 2, report.Rounds)
	assert.Equal(t, 4, report.Probes, "one that failed, three that passed")
	assert.Equal(t, 2, report.Workers)
	require.Len(t, report.Seconds, 3)
	assert.InDelta(t, (cooldowns[0] + cooldowns[1]).Seconds(), report.Seconds["open"], 1e-6)
	assert.InDelta(t, 2, report.Seconds["half-open"], 1e-6)
	assert.InDelta(t, 15, report.Seconds["recovering"], 1e-6)
	assert.InDelta(t, report.Ended.Sub(report.Since).Seconds(), report.Seconds["open"]+report.Seconds["half-open"]+report.Seconds["recovering"], 1e-6)
}

func TestOutage_ProbesThroughAChildOnTheToolsQueue(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.heard = i.busy
	var child *workflow.Info
	i.env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) { child = info })
	s := settings()
	s.Call.Args = []probeworkflow.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`{"id":"PROBE-1"}`)}}
	i.run(s)
	require.Len(t, i.probed, 1)
	assert.Equal(t, probeworkflow.ProbeInput{Key: key, Call: *s.Call, Successes: 3, Timeout: 2 * time.Second, Interval: time.Second}, i.probed[0])
	assert.Equal(t, "probe/carrier-api/eu-west", child.WorkflowExecution.ID)
	// Three calls that each wait for a worker, run for twice their time and pause.
	assert.Equal(t, 3*(8+2*2+1+1)*time.Second, child.WorkflowExecutionTimeout, "over after its lease, whatever happens to it")
}

// A label takes longer than a status: probed by it, a healthy dependency must have
// the time that a customer's call has, or it never closes.
func TestOutage_ProbesWithinTheThresholdOfTheTool(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.heard = i.busy
	var lease time.Duration
	i.env.SetOnChildWorkflowStartedListener(func(info *workflow.Info, _ workflow.Context, _ converter.EncodedValues) {
		lease = info.WorkflowExecutionTimeout
	})
	s := settings()
	s.Breaker.ToolLatency = map[string]time.Duration{s.Call.Activity: 20 * time.Second}
	i.run(s)
	require.Len(t, i.probed, 1)
	assert.Equal(t, 20*time.Second, i.probed[0].Timeout)
	assert.Equal(t, 3*(8+2*20+1+1)*time.Second, lease)
	probing := i.of(breaker.HalfOpen)[0]
	assert.Equal(t, 3*(20+1)*time.Second, probing.Next.Sub(i.times[1]))
}

func TestOutage_CoolsDownLongerEachTimeAProbeFails(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.heard = i.busy
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

// What the dependency asks for by Retry-After prolongs the wait and never cuts it
// short, within the cap, whatever a report holds.
func TestOutage_CoolsDownForAsLongAsTheDependencyAsked(t *testing.T) {
	t.Parallel()
	for asked, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, 5 * time.Second: 10 * time.Second, 30 * time.Second: 30 * time.Second,
		time.Hour: 40 * time.Second, -time.Hour: 10 * time.Second, 1<<63 - 1: 40 * time.Second,
	} {
		i := newIncident(t)
		i.heard = i.busy
		r := down("worker-1")
		r.HoldOff = asked
		i.runWith(settings(), r)
		about(t, want, i.cooldowns()[0])
	}
}

// Nobody could ask, so nothing was learnt: a region without workers must not end
// up in the longest cooldown, and must not be let through either.
func TestOutage_CoolsDownNoLongerWhenNobodyCouldProbe(t *testing.T) {
	t.Parallel()
	for _, finding := range []probeworkflow.Finding{probeworkflow.Inconclusive, broken} {
		t.Run(string(finding), func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.heard = i.busy
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
				assert.Equal(t, breaker.RuleFailureRate, v.Reason.Rule, "still for the first reason")
			}
			assert.Equal(t, wholeStory[2:], i.states()[len(i.states())-4:])
		})
	}
}

// A probe that never learns anything, a test account that is always told to slow
// down, must not keep customers out for ever: the ramp asks then.
func TestOutage_LetsTheRampAskWhenProbesNeverLearnAnything(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.heard = i.busy
	i.probe = func(int) probeworkflow.Finding { return probeworkflow.Inconclusive }
	i.run(settings())
	var story []string
	for range 5 {
		story = append(story, "open", "half-open")
	}
	assert.Equal(t, append(story, wholeStory[2:]...), i.states())
}

// Past its lease the probe workflow says nothing about the dependency.
func TestOutage_GoesOnWhenTheProbeNeverEnds(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.heard = i.busy
	i.probing = 24 * time.Hour
	i.probe = func(n int) probeworkflow.Finding {
		if n == 2 {
			i.probing = time.Second
		}
		return probeworkflow.Passed
	}
	i.at(12*time.Hour, func() { i.env.CancelWorkflowByID(probeworkflow.ProbeID(key), "") })
	i.run(settings())
	assert.Equal(t, append([]string{"open", "half-open"}, wholeStory...), i.states())
	about(t, 10*time.Second, i.cooldowns()[1])
}

// A dependency that says outright that it has no synthetic call is asked by the
// first customers of the ramp.
func TestOutage_WithoutAProbeGoesIntoTheRamp(t *testing.T) {
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
	i.heard = i.busy
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
	// Over all of the range, and to either side alike.
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
			i.heard = i.busy
			i.probing = 4 * time.Second
			i.at(c.after, i.env.CancelWorkflow)
			i.run(settings())
			assert.True(t, temporal.IsCanceledError(i.env.GetWorkflowError()))
			assert.Equal(t, []string{c.last, "closed"}, i.states()[len(i.states())-2:], "nobody is to be refused on a dead word")
		})
	}
	t.Run("probing on the ramp", func(t *testing.T) {
		t.Parallel()
		i := newIncident(t)
		i.onStep(10, func(breaker.Verdict) { i.at(5500*time.Millisecond, i.env.CancelWorkflow) })
		i.run(settings())
		assert.True(t, temporal.IsCanceledError(i.env.GetWorkflowError()))
		assert.Equal(t, append(slices.Clone(wholeStory[:3]), "closed"), i.states())
	})
	t.Run("closing", func(t *testing.T) {
		t.Parallel()
		i := newIncident(t)
		i.env.OnActivity(probeworkflow.PublishActivity, anything, anything).Return(nil).After(time.Hour)
		i.env.SetOnTimerScheduledListener(func(_ string, d time.Duration) {
			if d == 10*time.Second { // The wait for the board to hear.
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
	i.heard = func(n int, v breaker.Verdict) {
		i.busy(n, v)
		if v.State == breaker.Closed {
			statuses["closed"] = i.status()
		}
	}
	i.runWith(settings(), down("worker-1"), down("worker-2"))

	for name, status := range statuses {
		assert.Equal(t, name, status.Verdict.State.String())
		assert.Equal(t, i.of(status.Verdict.State)[0], status.Verdict, "as it was published")
	}
	assert.Nil(t, statuses["open"].LastProbe)
	require.NotNil(t, statuses["recovering"].LastProbe)
	assert.Equal(t, probeworkflow.Passed, statuses["recovering"].LastProbe.Finding)
	assert.Len(t, statuses["open"].Reports, 2)
	require.Len(t, statuses["recovering"].Reports, 1)
	assert.Equal(t, breaker.Recovering, statuses["recovering"].Reports[0].State, "the ramp's reports alone")
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

// The board may be out of reach; every state is left by time alone all the same.
func TestPublishing_FailingForAWhileStopsNothing(t *testing.T) {
	t.Parallel()
	told := newIncident(t)
	told.heard = told.busy
	told.run(settings())

	i := newIncident(t)
	failed := 0
	i.env.OnActivity(probeworkflow.PublishActivity, anything, anything).Return(func(ctx context.Context, e entry) error {
		if i.env.Now().Before(start.Add(13*time.Second)) && failed < 8 {
			failed++
			return errors.New("the board is out of reach")
		}
		return i.playPublish(ctx, e)
	})
	i.heard = i.busy
	i.run(settings())
	assert.Equal(t, 8, failed)
	assert.Equal(t, wholeStory, i.states(), "what failed is told later")
	assert.Equal(t, told.result().Seconds, i.result().Seconds, "and nothing waited for it")
}

func TestPublishing_FailingForEverStopsNothing(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.env.OnActivity(probeworkflow.PublishActivity, anything, anything).Return(temporal.NewNonRetryableApplicationError("", "Gone", nil))
	i.run(withoutProbe())
	report := i.result()
	assert.Equal(t, "recovered", report.Outcome)
	assert.InDelta(t, 15, report.Seconds["recovering"], 1e-6)
}

// The end of an outage waits for the board, but not for long.
func TestPublishing_HangingDelaysTheEndAlone(t *testing.T) {
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
