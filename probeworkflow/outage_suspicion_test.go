package probeworkflow_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

func TestSuspicion_OpensAtOnceIfAllWorkersHaveReported(t *testing.T) {
	t.Parallel()
	for name, reports := range map[string][]fleet.Report{
		"the only worker":     {down("worker-1")},
		"two of two":          {down("worker-1"), down("worker-2")},
		"one of them is idle": {down("worker-1"), {Worker: "idle"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.fleet = len(reports)
			i.runWith(settings(), reports...)
			require.NotEmpty(t, i.verdicts)
			assert.Equal(t, breaker.Open, i.verdicts[0].State)
			assert.True(t, start.Equal(i.times[0]), "opened at %v", i.times[0])
			assert.Equal(t, breaker.RuleFailureRate, i.verdicts[0].Reason.Rule)
		})
	}
}

// A worker that does not answer has no traffic, or has stopped.
func TestSuspicion_OpensOnceTheFirstAnswersAreDue(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.fleet = 3
	i.run(settings())
	require.NotEmpty(t, i.verdicts)
	assert.Equal(t, breaker.Open, i.verdicts[0].State)
	assert.True(t, start.Add(500*time.Millisecond).Equal(i.times[0]), "opened at %v", i.times[0])
}

// The dismissal is published with the outliers.
func TestSuspicion_IsDismissedByThePoll(t *testing.T) {
	t.Parallel()
	few := fleet.Report{Worker: "worker-1", Evidence: breaker.Evidence{Window: breaker.Counts{Samples: 9, Failures: 9}}}
	for name, c := range map[string]struct {
		reports  []fleet.Report
		workers  int
		outliers []string
		after    time.Duration
	}{
		"one outlier of two":  {[]fleet.Report{down("worker-1"), healthy("worker-2")}, 2, []string{"worker-1"}, 1500 * time.Millisecond},
		"one outlier of four": {[]fleet.Report{healthy("worker-1"), down("worker-2"), healthy("worker-3"), healthy("worker-4")}, 4, []string{"worker-2"}, 1500 * time.Millisecond},
		"no traffic":          {[]fleet.Report{{Worker: "worker-1"}}, 1, nil, 1500 * time.Millisecond},
		"no report":           {nil, 0, nil, 1500 * time.Millisecond},
		"too few calls":       {[]fleet.Report{few}, 1, nil, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.fleet = max(1, len(c.reports))
			i.runWith(settings(), c.reports...)
			report := i.result()
			assert.Empty(t, i.states())
			assert.Empty(t, i.probed)
			require.Len(t, i.polls, 1)
			require.Len(t, i.dismissals, 1)
			dismissed := i.dismissals[0]
			assert.Equal(t, breaker.Closed, dismissed.Verdict.State)
			assert.Greater(t, dismissed.Verdict.Epoch, i.polls[0].Poll.Round, "the dismissal ends the poll")
			assert.Equal(t, c.outliers, dismissed.Outliers)
			assert.Equal(t, probeworkflow.OutageReport{
				Key: key, Outcome: "dismissed", Ended: start.Add(c.after), Seconds: map[string]float64{}, Workers: c.workers,
			}, report)
		})
	}
}

func TestSuspicion_OpensAsSoonAsTheReportsSuffice(t *testing.T) {
	t.Parallel()
	one := fleet.Report{Worker: "worker-2", Evidence: breaker.Evidence{Window: breaker.Counts{Samples: 1, Failures: 1}}}
	i := newIncident(t)
	i.fleet = 2
	i.at(3*time.Second, func() { i.send(down("worker-2")) })
	i.runWith(settings(), down("worker-1"), one)
	require.NotEmpty(t, i.states(), "the newer report of a worker counts")
	assert.True(t, start.Add(3*time.Second).Equal(i.times[0]), "opened at %v", i.times[0])
	assert.True(t, start.Add(3*time.Second).Equal(i.result().Since))
	assert.Less(t, i.polls[0].Poll.Round, i.verdicts[0].Epoch, "the verdict ends the poll")
}

// answers lets n workers answer each poll with the same evidence.
func (i *incident) answers(n int, e breaker.Evidence) {
	i.onPoll = func(_ int, p fleet.Poll) {
		for w := range n {
			i.send(fleet.Report{Worker: fmt.Sprintf("sampled-%d", w), Round: p.Round, Evidence: e})
		}
	}
}

// If a tenth of a large fleet fails, a hundred workers report unasked, but it is no
// outage. Only the sample counts.
func TestSuspicion_OfALargeFleetIsDecidedByTheSample(t *testing.T) {
	t.Parallel()
	var unasked []fleet.Report
	for w := range 100 {
		unasked = append(unasked, down(fmt.Sprintf("worker-%d", w)))
	}
	i := newIncident(t)
	i.fleet = 1000
	i.answers(30, breaker.Evidence{Window: breaker.Counts{Samples: 100, Failures: 1}})
	i.runWith(settings(), unasked...)
	assert.Equal(t, "dismissed", i.result().Outcome)
	require.Len(t, i.dismissals, 1)
	assert.Len(t, i.dismissals[0].Outliers, 100)

	i = newIncident(t)
	i.fleet = 1000
	i.answers(16, breaker.Evidence{Window: breaker.Counts{Samples: 100, Failures: 90}})
	i.run(settings())
	assert.Equal(t, allStates, i.states())
	assert.True(t, start.Equal(i.times[0]), "half of the sample is enough; opened at %v", i.times[0])
}

// Thirty workers with five calls each are too few calls for a p99.
func TestSuspicion_PollsMoreIfTheSampleHasTooFewCalls(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.fleet = 1000
	i.onPoll = func(n int, p fleet.Poll) {
		for w := range []int{0, 30, 60}[n] {
			i.send(fleet.Report{Worker: fmt.Sprintf("worker-%d", w), Round: p.Round, Evidence: breaker.Evidence{
				Window: breaker.Counts{Samples: 5}, Hung: w % 30 / 29,
			}})
		}
	}
	i.runWith(settings(), fleet.Report{Worker: "worker-1", Evidence: breaker.Evidence{Hung: 3}})
	require.Len(t, i.polls, 2)
	assert.Equal(t, 20, i.polls[1].OneIn, "half of 41")
	assert.Greater(t, i.polls[1].Poll.Round, i.polls[0].Poll.Round)
	assert.Equal(t, "dismissed", i.result().Outcome, "2 of 302 calls hang")
}

// Signals are delivered at least once, in any order.
func TestSuspicion_IgnoresALateReport(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.fleet = 2
	late := down("worker-2")
	late.Sequence = -1
	i.at(time.Second, func() { i.env.SignalWorkflow(probeworkflow.ReportSignal, late) })
	i.runWith(settings(), down("worker-1"), healthy("worker-2"))
	assert.Equal(t, "dismissed", i.result().Outcome)
}

// The deciding report may arrive with the workflow task that ends the poll.
func TestSuspicion_JudgesAReportThatArrivesAsItEnds(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.fleet = 2
	i.at(1500*time.Millisecond-time.Millisecond, func() { i.sendWithNextTask(down("worker-2")) })
	i.runWith(settings(), down("worker-1"), healthy("worker-2"))
	assert.Equal(t, allStates, i.states())
}

// If the board is out of reach, the reports sent unasked decide.
func TestSuspicion_OpensWithoutAPollIfTheBoardIsOutOfReach(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.env.OnActivity(probeworkflow.PollActivity, anything, anything).Return(fleet.Poll{}, errors.New("out of reach"))
	i.run(settings())
	assert.Equal(t, allStates, i.states())
}

func TestSuspicion_EndsWhenCancelled(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.at(time.Second, i.env.CancelWorkflow)
	i.runWith(settings())
	assert.Empty(t, i.dismissals)
	assert.True(t, temporal.IsCanceledError(i.env.GetWorkflowError()))
	assert.Empty(t, i.states())
}

func TestSuspicion_SurvivesAReportThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	for name, invalid := range map[string]any{
		"text":             "down",
		"unknown state":    map[string]any{"worker": "worker-9", "state": "exploded"},
		"counts of a text": map[string]any{"worker": "worker-9", "window": map[string]any{"samples": "many"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.at(500*time.Millisecond, func() { i.env.SignalWorkflow(probeworkflow.ReportSignal, invalid) })
			i.at(time.Second, func() { i.send(down("worker-1")) })
			i.at(3*time.Second, func() { i.env.SignalWorkflow(probeworkflow.ReportSignal, invalid) })
			i.runWith(settings())
			assert.Equal(t, allStates, i.states())
			assert.Equal(t, 1, i.result().Workers)
		})
	}
}

func TestSuspicion_IsShownInDetailsAndQuery(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	var details string
	var status probeworkflow.Status
	i.fleet = 2
	i.at(time.Second, func() { details, status = i.details(), i.status() })
	i.runWith(settings(), down("worker-1"), healthy("worker-2"))
	assert.Contains(t, details, "carrier-api/eu-west is **suspected**")
	require.Len(t, status.Reports, 2)
	assert.Equal(t, "worker-1", status.Reports[0].Worker)
	assert.Equal(t, 20, status.Reports[0].Window.Failures)
	assert.Nil(t, status.LastProbe)
	assert.Contains(t, i.details(), "is **dismissed**", "the details stay after the end")
}
