package probeworkflow_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// onClosing runs f when the first verdict of closed is published, before the
// publish activity completes.
func (i *incident) onClosing(f func()) {
	before, done := i.onVerdict, false
	i.onVerdict = func(n int, v breaker.Verdict) {
		before(n, v)
		if v.State == breaker.Closed && !done {
			done = true
			f()
		}
	}
}

// reopened are the states of an outage that opens again while it closes.
var reopened = append(append([]string{}, allStates...), allStates...)

// The dependency goes down again while the outage closes. The server delivers the
// report to this workflow, which must not complete without judging it.
func TestClosing_ReopensOnAReport(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(i *incident){
		"before the verdict is published":   func(i *incident) { i.send(down("worker-1")) },
		"as the publish activity completes": func(i *incident) { i.sendWithNextTask(down("worker-1")) },
		"in two reports": func(i *incident) {
			i.send(down("worker-1"))
			i.sendWithNextTask(down("worker-2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.onVerdict = i.busy
			i.onClosing(func() { send(i) })
			i.run(settings())
			require.Equal(t, reopened, i.states())
			again := i.of(breaker.Open)[1]
			assert.Equal(t, breaker.RuleFailureRate, again.Reason.Rule)
			assert.Greater(t, again.Epoch, i.of(breaker.Closed)[0].Epoch, "the epoch grows although no time has passed")
			about(t, 20*time.Second, i.cooldowns()[1])
			report := i.result()
			assert.Equal(t, "recovered", report.Outcome)
			assert.Equal(t, 2, report.Rounds)
			assert.InDelta(t, report.Ended.Sub(report.Since).Seconds(),
				report.Seconds["open"]+report.Seconds["half-open"]+report.Seconds["recovering"], 1e-6, "closed is not counted")
		})
	}
}

// While the board is out of reach, the outage still judges reports.
func TestClosing_ReopensWhileTheBoardIsOutOfReach(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.env.OnActivity("BreakerPublish", anything, anything).Return(temporal.NewTimeoutError(0, nil)).After(time.Hour)
	sent := false
	i.env.SetOnTimerScheduledListener(func(_ string, d time.Duration) {
		if d == 10*time.Second && !sent { // The wait for the publish activity.
			sent = true
			i.at(9*time.Second, func() { i.send(down("worker-1")) })
		}
	})
	i.run(withoutProbe())
	require.True(t, sent)
	assert.Equal(t, 2, i.result().Rounds)
}

// Reports from before are not counted again. New ones that do not trip the rule do
// not reopen the outage.
func TestClosing_CompletesOnReportsThatDoNotTrip(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	// This report arrives on the ramp and is not about its calls.
	i.onStep(100, func(breaker.Verdict) { i.send(down("worker-2")) })
	i.onClosing(func() {
		i.send(healthy("worker-1"))
		i.send(onRamp("worker-3", i.verdicts[2], 5, 5))
	})
	i.run(settings())
	assert.Equal(t, allStates, i.states())
	assert.Equal(t, 3, i.result().Workers)
}
