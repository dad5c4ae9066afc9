package interceptor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// park runs one attempt of parking a run that may wait for so long.
func park(t *testing.T, p *interceptor.Plugin, key breaker.Key, timeout time.Duration) *temporal.ApplicationError {
	t.Helper()
	env := newWorkflowEnv()
	env.RegisterActivityWithOptions(p.AwaitRecovery, activity.RegisterOptions{Name: toolcall.AwaitRecoveryActivity})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Minute, ScheduleToCloseTimeout: timeout, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		})
		return workflow.ExecuteActivity(ctx, toolcall.AwaitRecoveryActivity, key).Get(ctx, nil)
	})
	var app *temporal.ApplicationError
	if err := env.GetWorkflowError(); err != nil {
		require.ErrorAs(t, err, &app)
	}
	return app
}

func openUntil(p *interceptor.Plugin, c *clock, left time.Duration) {
	p.Apply(fleet.Table{Entries: []fleet.Entry{{Key: key, Verdict: breaker.Verdict{
		State: breaker.Open, Epoch: 1, Next: c.Now().Add(left),
	}}}})
}

func TestAwaitRecovery_GoesOnAtOnceWhereThereIsNoOutage(t *testing.T) {
	t.Parallel()
	c := &clock{}
	p := newPlugin(t, guarded(c))
	assert.Nil(t, park(t, p, key, time.Hour), "never called here")
	openUntil(p, c, time.Minute)
	assert.Nil(t, park(t, p, breaker.Key{Dependency: "carrier-api", Region: "us-east"}, time.Hour), "another region")
	p.Apply(fleet.Table{Entries: []fleet.Entry{{Key: key, Verdict: breaker.Verdict{State: breaker.Closed, Epoch: 2}}}})
	assert.Nil(t, park(t, p, key, time.Hour), "closed again")
}

func TestAwaitRecovery_LooksAgainWhenTheStateIsDueToChange(t *testing.T) {
	t.Parallel()
	c := &clock{elapsed: time.Since(wall)}
	p := newPlugin(t, guarded(c))
	openUntil(p, c, 30*time.Second)
	still := park(t, p, key, time.Hour)
	require.NotNil(t, still)
	assert.Equal(t, toolcall.StillUnavailable, still.Type())
	assert.Equal(t, temporal.ApplicationErrorCategoryBenign, still.Category())
	assert.False(t, still.NonRetryable())
	assert.Equal(t, "carrier-api/eu-west is open", still.Message())
}

// A delay past what is left of schedule-to-close ends an activity at once.
func TestAwaitRecovery_HasALastLookBeforeItsTimeIsUp(t *testing.T) {
	t.Parallel()
	c := &clock{elapsed: time.Since(wall)}
	p := newPlugin(t, guarded(c))
	openUntil(p, c, time.Hour)
	assert.False(t, park(t, p, key, 10*time.Second).NonRetryable())
	assert.True(t, park(t, p, key, time.Second).NonRetryable(), "that was the last one")
}

func TestAwaitRecovery_RefusesADependencyNobodyKnows(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{elapsed: time.Since(wall)}))
	unknown := park(t, p, breaker.Key{Dependency: "carier-api", Region: "eu-west"}, time.Second)
	require.NotNil(t, unknown)
	assert.True(t, unknown.NonRetryable())
	assert.Contains(t, unknown.Message(), `"carier-api"`)
}

// Workers of two configurations served one task queue: a run that was parked for a
// dependency of the one failed when the other picked it up.
func TestAwaitRecovery_LeavesADependencyOfOtherWorkersToThem(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{elapsed: time.Since(wall)}))
	theirs := park(t, p, breaker.Key{Dependency: "search", Region: "eu-west"}, time.Hour)
	require.NotNil(t, theirs)
	assert.False(t, theirs.NonRetryable())
	assert.Equal(t, "UnknownDependency", theirs.Type())
	assert.Equal(t, `no dependency "search" is configured here`, theirs.Message())
}

// Ten thousand runs are parked when the dependency comes back. Woken together,
// they would do to it what the ramp is there to prevent.
func TestAwaitRecovery_WakesInStepWithTheRamp(t *testing.T) {
	t.Parallel()
	const runs = 10_000
	config := breaker.Config{RampStep: 15 * time.Second}.WithDefaults()
	recovers := wall.Add(10 * time.Minute)
	end := recovers.Add(time.Duration(len(config.Ramp)) * config.RampStep)
	// at is what every worker knows at a moment: open with a cooldown of a minute
	// that is renewed, then the ramp, then closed.
	at := func(now time.Time) breaker.Snapshot {
		switch {
		case now.Before(recovers):
			return breaker.Snapshot{Mode: breaker.Enforce, State: breaker.Open, Next: now.Truncate(time.Minute).Add(time.Minute)}
		case now.Before(end):
			step := int(now.Sub(recovers) / config.RampStep)
			return breaker.Snapshot{
				Mode: breaker.Enforce, State: breaker.Recovering, Share: config.Ramp[step], Next: recovers.Add(time.Duration(step+1) * config.RampStep),
			}
		}
		return breaker.Snapshot{Mode: breaker.Enforce, State: breaker.Closed}
	}
	woken := map[time.Duration]int{} // by second since the recovery
	looks := 0
	for run := range runs {
		place, moment := interceptor.Draw(fmt.Sprintf("run-%d", run), "5")
		for now := wall; ; looks++ {
			wait := interceptor.ParkedFor(at(now), config, place, moment, now)
			if wait <= 0 {
				woken[now.Sub(recovers).Truncate(time.Second)]++
				break
			}
			now = now.Add(max(wait, time.Second))
			require.True(t, now.Before(end.Add(2*time.Minute)), "run %d is never woken", run)
		}
	}
	gone := 0
	for second := time.Duration(0); second < end.Sub(recovers)+2*time.Minute; second += time.Second {
		gone += woken[second]
		assert.LessOrEqual(t, woken[second], runs/15, "in second %v", second)
		if second < end.Sub(recovers) {
			share := config.Ramp[second/config.RampStep]
			assert.LessOrEqual(t, gone, runs*share/100+200, "by second %v, at %d%%", second, share)
		}
	}
	assert.Equal(t, runs, gone, "nobody was woken before the recovery, or lost")
	assert.Less(t, looks, 25*runs, "in ten minutes")
}

func TestAwaitRecovery_ParksNobodyWhereNothingIsRefused(t *testing.T) {
	t.Parallel()
	config := breaker.Config{}.WithDefaults()
	for _, mode := range []breaker.Mode{breaker.Observe, breaker.Off} {
		assert.Zero(t, interceptor.ParkedFor(breaker.Snapshot{State: breaker.Open, Mode: mode, Next: wall.Add(time.Hour)}, config, 0.5, 0.5, wall))
	}
	assert.Zero(t, interceptor.ParkedFor(breaker.Snapshot{Mode: breaker.Enforce, State: breaker.ForcedClosed}, config, 0.5, 0.5, wall))
	forced := breaker.Snapshot{Mode: breaker.Enforce, State: breaker.ForcedOpen, Next: wall.Add(time.Hour)}
	assert.Less(t, interceptor.ParkedFor(forced, config, 0.5, 0.99, wall), 80*time.Second, "an operator may release it any time")
}
