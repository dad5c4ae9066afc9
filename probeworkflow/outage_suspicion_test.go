package probeworkflow_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

func TestSuspicion_ConvictsAtOnce(t *testing.T) {
	t.Parallel()
	for name, reports := range map[string][]fleet.Report{
		"the only worker with traffic": {down("worker-1")},
		"two of two":                   {down("worker-1"), down("worker-2")},
		"beside an idle one":           {down("worker-1"), {Worker: "idle"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.runWith(settings(), reports...)
			require.NotEmpty(t, i.verdicts)
			assert.Equal(t, breaker.Open, i.verdicts[0].State)
			assert.True(t, start.Equal(i.times[0]), "opened at %v", i.times[0])
			assert.Equal(t, breaker.RuleFailureRate, i.verdicts[0].Reason.Rule)
		})
	}
}

// It waits for a census, and ends where no verdict was needed: nothing was said,
// so there is nothing to take back.
func TestSuspicion_IsDismissedAfterTheCensus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reports []fleet.Report
		workers int
	}{
		"one bad worker among two":  {[]fleet.Report{down("worker-1"), healthy("worker-2")}, 2},
		"one bad worker among four": {[]fleet.Report{down("worker-1"), healthy("worker-2"), healthy("worker-3"), healthy("worker-4")}, 4},
		"too few calls":             {[]fleet.Report{{Worker: "worker-1", Evidence: breaker.Evidence{Window: breaker.Counts{Samples: 9, Failures: 9}}}}, 1},
		"nobody with traffic":       {[]fleet.Report{{Worker: "worker-1"}}, 1},
		"nobody at all":             {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.runWith(settings(), c.reports...)
			report := i.result()
			assert.Empty(t, i.states())
			assert.Empty(t, i.probed)
			assert.Equal(t, probeworkflow.OutageReport{
				Key: key, Outcome: "dismissed", Ended: start.Add(5 * time.Second), Seconds: map[string]float64{}, Workers: c.workers,
			}, report)
		})
	}
}

func TestSuspicion_ConvictsAsSoonAsTheReportsDo(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.at(2*time.Second, func() { i.send(healthy("worker-3")) })
	i.at(3*time.Second, func() { i.send(down("worker-2")) })
	i.runWith(settings(), down("worker-1"), healthy("worker-3"), fleet.Report{Worker: "worker-2", Evidence: breaker.Evidence{Window: breaker.Counts{Samples: 1}}})
	// 40 of 60 fail, and without either of the two 20 of 40: not over half.
	assert.Empty(t, i.states())

	i = newIncident(t)
	i.at(3*time.Second, func() { i.send(down("worker-2")) })
	i.runWith(settings(), down("worker-1"), fleet.Report{Worker: "worker-2", Evidence: breaker.Evidence{Window: breaker.Counts{Samples: 1}}})
	require.NotEmpty(t, i.states(), "the newer report of a worker counts")
	assert.True(t, start.Add(3*time.Second).Equal(i.times[0]), "opened at %v", i.times[0])
	assert.True(t, start.Add(3*time.Second).Equal(i.result().Since))
}

// Signals are delivered at least once and in no order.
func TestSuspicion_IsNotMovedByALateReport(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	late := down("worker-2")
	late.Sequence = -1
	i.at(time.Second, func() { i.env.SignalWorkflow(probeworkflow.ReportSignal, late) })
	i.runWith(settings(), down("worker-1"), healthy("worker-2"))
	assert.Equal(t, "dismissed", i.result().Outcome)
}

// The report that convicts may come with the very task that ends the census. A
// completed workflow hears nothing any more, and the worker that sent it would
// believe that somebody did.
func TestSuspicion_HearsTheReportThatArrivesAsItEnds(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.at(5*time.Second-time.Millisecond, func() { i.sendUnnoticed(down("worker-2")) })
	i.runWith(settings(), down("worker-1"), fleet.Report{Worker: "worker-2", Evidence: breaker.Evidence{Window: breaker.Counts{Samples: 1}}})
	assert.Equal(t, wholeStory, i.states())
}

func TestSuspicion_EndsWhenCancelled(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.at(time.Second, i.env.CancelWorkflow)
	i.runWith(settings())
	assert.True(t, temporal.IsCanceledError(i.env.GetWorkflowError()))
	assert.Empty(t, i.states())
}

func TestSuspicion_OutlivesAReportThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, hostile := range map[string]any{
		"text":             "down",
		"unknown state":    map[string]any{"worker": "worker-9", "state": "exploded"},
		"counts of a text": map[string]any{"worker": "worker-9", "window": map[string]any{"samples": "many"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.at(time.Second, func() { i.env.SignalWorkflow(probeworkflow.ReportSignal, hostile) })
			i.at(2*time.Second, func() { i.send(down("worker-1")) })
			i.at(3*time.Second, func() { i.env.SignalWorkflow(probeworkflow.ReportSignal, hostile) })
			i.runWith(settings())
			assert.Equal(t, wholeStory, i.states())
			assert.Equal(t, 1, i.result().Workers)
		})
	}
}

func TestSuspicion_IsShownAndCanBeAsked(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	var details string
	var status probeworkflow.Status
	i.at(2*time.Second, func() { details, status = i.details(), i.status() })
	i.runWith(settings(), down("worker-1"), healthy("worker-2"))
	assert.Contains(t, details, "carrier-api/eu-west is **suspected**")
	require.Len(t, status.Reports, 2)
	assert.Equal(t, "worker-1", status.Reports[0].Worker)
	assert.Equal(t, 20, status.Reports[0].Window.Failures)
	assert.Nil(t, status.LastProbe)
	assert.Contains(t, i.details(), "is **dismissed**", "and stays so once it has ended")
}
