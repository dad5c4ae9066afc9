package probeworkflow_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// onClosing runs f when the first verdict "closed" has arrived at the board,
// before the outage hears that it has.
func (i *incident) onClosing(f func()) {
	before, done := i.heard, false
	i.heard = func(n int, v breaker.Verdict) {
		before(n, v)
		if v.State == breaker.Closed && !done {
			done = true
			f()
		}
	}
}

// reopened is a whole outage, and another on its heels.
var reopened = append(append([]string{}, wholeStory...), wholeStory...)

// The dependency goes down again on the very edge to closed. The server hands
// the report to this workflow, and this workflow is about to complete: nobody
// else would ever hear of it.
func TestClosing_ReopensOnAReport(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(i *incident){
		"that arrives before the board has heard": func(i *incident) { i.send(down("worker-1")) },
		"that arrives with the board's answer":    func(i *incident) { i.sendUnnoticed(down("worker-1")) },
		"that convicts with another": func(i *incident) {
			i.send(down("worker-1"))
			i.sendUnnoticed(down("worker-2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.heard = i.busy
			i.onClosing(func() { send(i) })
			i.run(settings())
			require.Equal(t, reopened, i.states())
			again := i.of(breaker.Open)[1]
			assert.Equal(t, breaker.RuleFailureRate, again.Reason.Rule)
			assert.Greater(t, again.Epoch, i.of(breaker.Closed)[0].Epoch, "though no time has passed")
			about(t, 20*time.Second, i.cooldowns()[1])
			report := i.result()
			assert.Equal(t, "recovered", report.Outcome)
			assert.Equal(t, 2, report.Rounds)
			assert.InDelta(t, report.Ended.Sub(report.Since).Seconds(),
				report.Seconds["open"]+report.Seconds["half-open"]+report.Seconds["recovering"], 1e-6, "closed is not counted")
		})
	}
}

// While the board is out of reach, the outage lingers, and listens.
func TestClosing_ReopensWhileTheBoardIsOutOfReach(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.env.OnActivity("BreakerPublish", anything, anything).Return(temporal.NewTimeoutError(0, nil)).After(time.Hour)
	sent := false
	i.env.SetOnTimerScheduledListener(func(_ string, d time.Duration) {
		if d == 10*time.Second && !sent { // The wait for the board to hear.
			sent = true
			i.at(9*time.Second, func() { i.send(down("worker-1")) })
		}
	})
	i.run(withoutProbe())
	require.True(t, sent)
	assert.Equal(t, 2, i.result().Rounds)
}

// What did not convict before is not counted again, and what does not convict
// now does not either.
func TestClosing_CompletesOnReportsThatDoNotConvict(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.heard = i.busy
	// Heard on the ramp, where it is about calls of another time.
	i.onStep(100, func(breaker.Verdict) { i.send(down("worker-2")) })
	i.onClosing(func() {
		i.send(healthy("worker-1"))
		i.send(onRamp("worker-3", i.verdicts[2], 5, 5))
	})
	i.run(settings())
	assert.Equal(t, wholeStory, i.states())
	assert.Equal(t, 3, i.result().Workers)
}
