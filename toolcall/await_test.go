package toolcall_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// waitingWith is an environment whose activity for AwaitRecovery is f.
func waitingWith(f func(context.Context, breaker.Key) error) *agentEnv {
	env := newAgentEnv(refuse(shared()))
	env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: toolcall.AwaitRecoveryActivity})
	return env
}

// await runs AwaitRecovery for an hour and returns its results.
func await(t *testing.T, env *agentEnv) (recovered bool, err error) {
	t.Helper()
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		recovered, err = toolcall.AwaitRecovery(ctx, "carrier-api", "eu-west", time.Hour)
	})
	return recovered, err
}

func TestAwaitRecovery_EndsWhenTheDependencyHasRecovered(t *testing.T) {
	t.Parallel()
	var keys []breaker.Key
	env := waitingWith(func(_ context.Context, key breaker.Key) error {
		if keys = append(keys, key); len(keys) < 4 {
			return temporal.NewApplicationErrorWithOptions("", "Waiting", temporal.ApplicationErrorOptions{NextRetryDelay: time.Minute})
		}
		return nil
	})
	recovered, err := await(t, env)
	require.NoError(t, err)
	assert.True(t, recovered)
	key := breaker.Key{Dependency: "carrier-api", Region: "eu-west"}
	assert.Equal(t, []breaker.Key{key, key, key, key}, keys)
}

func TestAwaitRecovery_UsesTheControlTaskQueue(t *testing.T) {
	t.Parallel()
	env := waitingWith(func(context.Context, breaker.Key) error { return nil })
	scheduled := scheduledWith(env)
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		_, err := toolcall.AwaitRecovery(ctx, "carrier-api", "eu-west", time.Hour)
		assert.NoError(t, err)
		_, err = toolcall.AwaitRecoveryOn(ctx, "breakers", "carrier-api", "eu-west", time.Minute)
		assert.NoError(t, err)
	})
	require.Len(t, *scheduled, 2)
	assert.Equal(t, "toolbreaker", (*scheduled)[0].TaskQueue)
	assert.Equal(t, time.Hour, (*scheduled)[0].ScheduleToCloseTimeout)
	assert.Equal(t, "until carrier-api/eu-west recovers", (*scheduled)[0].Summary)
	assert.Equal(t, "breakers", (*scheduled)[1].TaskQueue)
	assert.Equal(t, time.Minute, (*scheduled)[1].ScheduleToCloseTimeout)
}

// If the next attempt would be too late, the server ends the activity in its last
// failure instead of a timeout. That is not an error of the run.
func TestAwaitRecovery_ReturnsFalseAtItsTimeout(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"ended by the activity":     temporal.NewNonRetryableApplicationError("", toolcall.StillUnavailable, nil),
		"ended by the server":       temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, nil),
		"ended in its last failure": temporal.NewApplicationErrorWithOptions("", "Waiting", temporal.ApplicationErrorOptions{NextRetryDelay: 25 * time.Minute}),
		"another error":             errors.New("frontend is busy"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recovered, err := await(t, waitingWith(func(context.Context, breaker.Key) error { return end }))
			require.NoError(t, err)
			assert.False(t, recovered)
		})
	}
}

// Waiting for a dependency that no worker has is a mistake in the workflow.
func TestAwaitRecovery_OfAnUnknownDependencyIsAnError(t *testing.T) {
	t.Parallel()
	recovered, err := await(t, waitingWith(func(context.Context, breaker.Key) error {
		return temporal.NewNonRetryableApplicationError("no such dependency", "UnknownDependency", nil)
	}))
	assert.ErrorContains(t, err, "no such dependency")
	assert.False(t, recovered)
}

func TestAwaitRecovery_OfACancelledRunIsAnError(t *testing.T) {
	t.Parallel()
	env := waitingWith(func(context.Context, breaker.Key) error { return nil })
	env.OnActivity(toolcall.AwaitRecoveryActivity, mock.Anything, mock.Anything).Return(nil).After(time.Hour)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	recovered, err := await(t, env)
	assert.True(t, temporal.IsCanceledError(err), "%v", err)
	assert.False(t, recovered)
}

func TestAwaitRecovery_WithoutTimeStartsNoActivity(t *testing.T) {
	t.Parallel()
	env := waitingWith(func(context.Context, breaker.Key) error { return nil })
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		for _, timeout := range []time.Duration{0, -time.Second} {
			recovered, err := toolcall.AwaitRecovery(ctx, "carrier-api", "eu-west", timeout)
			assert.NoError(t, err)
			assert.False(t, recovered)
		}
		cancelled, cancel := workflow.WithCancel(ctx)
		cancel()
		_, err := toolcall.AwaitRecovery(cancelled, "carrier-api", "eu-west", 0)
		assert.True(t, temporal.IsCanceledError(err))
	})
	assert.Empty(t, env.started)
}

// The retry time of the earlier refusal no longer applies.
func TestAwaitRecovery_ClearsTheRefusal(t *testing.T) {
	t.Parallel()
	env := waitingWith(func(context.Context, breaker.Key) error { return nil })
	env.within(t, toolcall.Run{Tools: []string{tool}}, func(ctx workflow.Context) {
		call(ctx, tool, query{})
		call(ctx, tool, query{})
		require.Equal(t, 1, env.started[tool])
		_, err := toolcall.AwaitRecovery(ctx, "carrier-api", "us-east", time.Hour)
		assert.NoError(t, err)
		assert.Empty(t, toolcall.AvailableTools(ctx), "another region's recovery does not count")

		_, err = toolcall.AwaitRecovery(ctx, "carrier-api", "eu-west", time.Hour)
		assert.NoError(t, err)
		assert.Equal(t, []string{tool}, toolcall.AvailableTools(ctx))
		assert.Equal(t, 1, call(ctx, tool, query{}).Unavailable.Refusals, "the count starts anew")
	})
	assert.Equal(t, 2, env.started[tool])
}

func TestAwaitRecovery_ThatTimedOutKeepsTheRefusal(t *testing.T) {
	t.Parallel()
	env := waitingWith(func(context.Context, breaker.Key) error {
		return temporal.NewNonRetryableApplicationError("", toolcall.StillUnavailable, nil)
	})
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		call(ctx, tool, query{})
		_, err := toolcall.AwaitRecovery(ctx, "carrier-api", "eu-west", time.Hour)
		assert.NoError(t, err)
		assert.Equal(t, 2, call(ctx, tool, query{}).Unavailable.Refusals)
	})
	assert.Equal(t, 1, env.started[tool])
}

func TestAwaitRecovery_WorksWithoutWithRun(t *testing.T) {
	t.Parallel()
	env := waitingWith(func(context.Context, breaker.Key) error { return nil })
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		recovered, err := toolcall.AwaitRecovery(ctx, "carrier-api", "eu-west", time.Hour)
		assert.True(t, recovered)
		return err
	})
	require.NoError(t, env.GetWorkflowError())
}
