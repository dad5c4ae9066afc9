package probeworkflow_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// failedOnce returns an incident whose first round of probes fails.
func failedOnce(t *testing.T) *incident {
	t.Helper()
	i := newIncident(t)
	i.probe = func(n int) probeworkflow.Finding {
		if n == 1 {
			return probeworkflow.Failed
		}
		return probeworkflow.Passed
	}
	return i
}

func TestContinueAsNew_CarriesTheOutage(t *testing.T) {
	t.Parallel()
	i := failedOnce(t)
	i.at(5*time.Second, func() { i.env.SetContinueAsNewSuggested(true) })
	i.run(settings())
	in := i.carried()
	assert.Equal(t, []string{"open", "half-open"}, i.states(), "it continues as new before the next open state")
	assert.Equal(t, settings(), in.Settings)
	assert.Equal(t, i.verdicts[1].Epoch, in.Carried.Epoch)
	assert.Equal(t, 1, in.Carried.Round)
	assert.Equal(t, breaker.Reason{Rule: breaker.RuleProbe}, in.Carried.Reason, "the reason for the next open state")
	report := in.Carried.Report
	assert.Equal(t, key, report.Key)
	assert.Empty(t, report.Outcome)
	assert.True(t, start.Equal(report.Since))
	assert.Equal(t, "20 of 20 calls failed in 1m0s (over 50%)", report.Reason)
	assert.Equal(t, 1, report.Rounds)
	assert.Equal(t, 1, report.Probes)
	assert.Equal(t, 1, report.Workers)
	assert.InDelta(t, i.cooldowns()[0].Seconds(), report.Seconds["open"], 1e-6)
	assert.InDelta(t, 1, report.Seconds["half-open"], 1e-6, "the last state is counted too")
}

func TestContinueAsNew_ContinuesTheOutage(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	reason := breaker.Reason{Rule: breaker.RuleLatency, Counts: breaker.Counts{Samples: 20, Slow: 9}, Horizon: time.Minute, Latency: 2 * time.Second, Quantile: 0.99}
	since := start.Add(-time.Hour)
	ahead := start.Add(time.Hour).UnixMilli()
	i.start(probeworkflow.OutageInput{Settings: settings(), Carried: &probeworkflow.Carried{
		Epoch: ahead, Round: 1, Reason: reason,
		Report: probeworkflow.OutageReport{
			Key: key, Since: since, Reason: "the first reason", Rounds: 7, Probes: 11, Workers: 3,
			Seconds: map[string]float64{"open": 100, "half-open": 10, "recovering": 1},
		},
	}})
	// The outage opens without another poll.
	assert.Equal(t, allStates, i.states())
	assert.True(t, start.Equal(i.times[0]))
	for n, v := range i.verdicts {
		assert.Equal(t, ahead+1+int64(n), v.Epoch, "the epoch grows even if the clock was set back")
		assert.True(t, since.Equal(v.Since))
	}
	assert.Equal(t, reason, i.verdicts[0].Reason)
	about(t, 20*time.Second, i.cooldowns()[0])

	report := i.result()
	assert.Equal(t, "recovered", report.Outcome)
	assert.True(t, since.Equal(report.Since))
	assert.Equal(t, "the first reason", report.Reason)
	assert.Equal(t, 8, report.Rounds)
	assert.Equal(t, 14, report.Probes)
	assert.Equal(t, 4, report.Workers)
	assert.InDelta(t, 100+i.cooldowns()[0].Seconds(), report.Seconds["open"], 1e-6)
	assert.InDelta(t, 11, report.Seconds["half-open"], 1e-6)
	assert.InDelta(t, 16, report.Seconds["recovering"], 1e-6)
}

// The server does not pass the signals of one run to the next.
func TestContinueAsNew_LosesNoReport(t *testing.T) {
	t.Parallel()
	i := failedOnce(t)
	i.at(5*time.Second, func() { i.env.SetContinueAsNewSuggested(true) })
	i.onVerdict = func(_ int, v breaker.Verdict) {
		if v.State == breaker.HalfOpen {
			// These reports arrive with the workflow task that ends the probe.
			i.at(900*time.Millisecond, func() {
				i.sendWithNextTask(down("worker-2"))
				i.sendWithNextTask(down("worker-3"))
			})
		}
	}
	i.run(settings())
	assert.Equal(t, 3, i.carried().Carried.Report.Workers)
}

func TestContinueAsNew_BeforeTheHistoryGrowsTooLong(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]bool{2000: false, 2001: true} {
		i := failedOnce(t)
		i.at(5*time.Second, func() { i.env.SetCurrentHistoryLength(length) })
		i.run(settings())
		require.Equal(t, want, i.env.GetWorkflowError() != nil, "at %d events: %v", length, i.env.GetWorkflowError())
		if want {
			i.carried()
		}
	}
}

// The server may suggest it in the first workflow task. Then nothing is published
// yet, and the next run opens.
func TestContinueAsNew_BeforeTheFirstVerdict(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.env.SetContinueAsNewSuggested(true)
	i.run(settings())
	in := i.carried()
	assert.Empty(t, i.states())
	assert.Equal(t, breaker.RuleFailureRate, in.Carried.Reason.Rule)

	next := newIncident(t)
	next.onVerdict = next.busy
	next.start(in)
	assert.Equal(t, allStates, next.states())
	assert.Equal(t, 1, next.result().Rounds)
}
