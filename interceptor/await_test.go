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

// check runs one attempt of a run that waits with this timeout.
func check(t *testing.T, p *interceptor.Plugin, key breaker.Key, timeout time.Duration) *temporal.ApplicationError {
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

func TestAwaitRecovery_EndsAtOnceWithoutAnOutage(t *testing.T) {
	t.Parallel()
	c := &clock{}
	p := newPlugin(t, guarded(c))
	assert.Nil(t, check(t, p, key, time.Hour), "not called in this process")
	openUntil(p, c, time.Minute)
	assert.Nil(t, check(t, p, breaker.Key{Dependency: "carrier-api", Region: "us-east"}, time.Hour), "another region")
	p.Apply(fleet.Table{Entries: []fleet.Entry{{Key: key, Verdict: breaker.Verdict{State: breaker.Closed, Epoch: 2}}}})
	assert.Nil(t, check(t, p, key, time.Hour), "closed again")
}

func TestAwaitRecovery_ChecksAgainWhenTheStateIsDueToChange(t *testing.T) {
	t.Parallel()
	c := &clock{elapsed: time.Since(wall)}
	p := newPlugin(t, guarded(c))
	openUntil(p, c, 30*time.Second)
	still := check(t, p, key, time.Hour)
	require.NotNil(t, still)
	assert.Equal(t, toolcall.StillUnavailable, still.Type())
	assert.Equal(t, temporal.ApplicationErrorCategoryBenign, still.Category())
	assert.False(t, still.NonRetryable())
	assert.Equal(t, "carrier-api/eu-west is open", still.Message())
}

// The server ends an activity at once if its retry delay exceeds schedule-to-close.
func TestAwaitRecovery_ChecksOnceMoreBeforeItsTimeout(t *testing.T) {
	t.Parallel()
	c := &clock{elapsed: time.Since(wall)}
	p := newPlugin(t, guarded(c))
	openUntil(p, c, time.Hour)
	assert.False(t, check(t, p, key, 10*time.Second).NonRetryable())
	assert.True(t, check(t, p, key, time.Second).NonRetryable(), "no further check")
}

func TestAwaitRecovery_OfAnUnknownDependencyEnds(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{elapsed: time.Since(wall)}))
	unknown := check(t, p, breaker.Key{Dependency: "carier-api", Region: "eu-west"}, time.Second)
	require.NotNil(t, unknown)
	assert.True(t, unknown.NonRetryable())
	assert.Contains(t, unknown.Message(), `"carier-api"`)
}

// Workers with two configurations shared a task queue. A run that waited for a dependency of
// one configuration failed when a worker with the other one ran its check.
func TestAwaitRecovery_RetriesADependencyOfOtherWorkers(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{elapsed: time.Since(wall)}))
	theirs := check(t, p, breaker.Key{Dependency: "search", Region: "eu-west"}, time.Hour)
	require.NotNil(t, theirs)
	assert.False(t, theirs.NonRetryable())
	assert.Equal(t, "UnknownDependency", theirs.Type())
	assert.Equal(t, `no dependency "search" is configured here`, theirs.Message())
}

// Ten thousand runs that continue at the same time would overload the dependency, which the
// ramp is there to prevent.
func TestAwaitRecovery_ContinuesInStepWithTheRamp(t *testing.T) {
	t.Parallel()
	const runs = 10_000
	config := breaker.Config{RampStep: 15 * time.Second}.WithDefaults()
	recovers := wall.Add(10 * time.Minute)
	end := recovers.Add(time.Duration(len(config.Ramp)) * config.RampStep)
	// at is the state that every worker has at a time: open with a renewed cooldown of a
	// minute, then the ramp, then closed.
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
	continued := map[time.Duration]int{} // by second since the recovery
	checks := 0
	for run := range runs {
		place, moment := interceptor.RampPlace(fmt.Sprintf("run-%d", run), "5")
		for now := wall; ; checks++ {
			wait := interceptor.NextCheck(at(now), config, place, moment, now)
			if wait <= 0 {
				continued[now.Sub(recovers).Truncate(time.Second)]++
				break
			}
			now = now.Add(max(wait, time.Second))
			require.True(t, now.Before(end.Add(2*time.Minute)), "run %d never continues", run)
		}
	}
	ended := 0
	for second := time.Duration(0); second < end.Sub(recovers)+2*time.Minute; second += time.Second {
		ended += continued[second]
		assert.LessOrEqual(t, continued[second], runs/15, "in second %v", second)
		if second < end.Sub(recovers) {
			share := config.Ramp[second/config.RampStep]
			assert.LessOrEqual(t, ended, runs*share/100+200, "by second %v, at %d%%", second, share)
		}
	}
	assert.Equal(t, runs, ended, "no run continued before the recovery, and none is lost")
	assert.Less(t, checks, 25*runs, "in ten minutes")
}

func TestAwaitRecovery_EndsAtOnceIfNothingIsRefused(t *testing.T) {
	t.Parallel()
	config := breaker.Config{}.WithDefaults()
	for _, mode := range []breaker.Mode{breaker.Observe, breaker.Off} {
		assert.Zero(t, interceptor.NextCheck(breaker.Snapshot{State: breaker.Open, Mode: mode, Next: wall.Add(time.Hour)}, config, 0.5, 0.5, wall))
	}
	assert.Zero(t, interceptor.NextCheck(breaker.Snapshot{Mode: breaker.Enforce, State: breaker.ForcedClosed}, config, 0.5, 0.5, wall))
	forced := breaker.Snapshot{Mode: breaker.Enforce, State: breaker.ForcedOpen, Next: wall.Add(time.Hour)}
	assert.Less(t, interceptor.NextCheck(forced, config, 0.5, 0.99, wall), 80*time.Second, "an operator may release it any time")
}
