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

// parkedUntil is an environment whose parking activity is f.
func parkedUntil(f func(context.Context, breaker.Key) error) *agentEnv {
	env := newAgentEnv(refuse(shared()))
	env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: toolcall.AwaitRecoveryActivity})
	return env
}

// await parks a run for an hour and gives what came of it.
func await(t *testing.T, env *agentEnv) (recovered bool, err error) {
	t.Helper()
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		recovered, err = toolcall.AwaitRecovery(ctx, "carrier-api", "eu-west", time.Hour)
	})
	return recovered, err
}

func TestAwaitRecovery_GoesOnWhenTheDependencyIsBack(t *testing.T) {
	t.Parallel()
	var asked []breaker.Key
	env := parkedUntil(func(_ context.Context, key breaker.Key) error {
		if asked = append(asked, key); len(asked) < 4 {
			return temporal.NewApplicationErrorWithOptions("", "Parked", temporal.ApplicationErrorOptions{NextRetryDelay: time.Minute})
		}
		return nil
	})
	recovered, err := await(t, env)
	require.NoError(t, err)
	assert.True(t, recovered)
	key := breaker.Key{Dependency: "carrier-api", Region: "eu-west"}
	assert.Equal(t, []breaker.Key{key, key, key, key}, asked)
}

func TestAwaitRecovery_ParksOnTheControlTaskQueue(t *testing.T) {
	t.Parallel()
	env := parkedUntil(func(context.Context, breaker.Key) error { return nil })
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

// A server that sees that the next attempt would come too late ends the activity
// in its last failure, not in a timeout: the run took that for a failure of its own.
func TestAwaitRecovery_GivesUpAtItsTimeout(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"told by the activity":   temporal.NewNonRetryableApplicationError("", toolcall.StillUnavailable, nil),
		"told by the server":     temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, nil),
		"told by its last words": temporal.NewApplicationErrorWithOptions("", "Parked", temporal.ApplicationErrorOptions{NextRetryDelay: 25 * time.Minute}),
		"of another kind":        errors.New("frontend is busy"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recovered, err := await(t, parkedUntil(func(context.Context, breaker.Key) error { return end }))
			require.NoError(t, err)
			assert.False(t, recovered)
		})
	}
}

// Nobody guards that dependency: waiting is a mistake in the workflow.
func TestAwaitRecovery_ForWhatNobodyKnowsIsAnError(t *testing.T) {
	t.Parallel()
	recovered, err := await(t, parkedUntil(func(context.Context, breaker.Key) error {
		return temporal.NewNonRetryableApplicationError("no such dependency", "UnknownDependency", nil)
	}))
	assert.ErrorContains(t, err, "no such dependency")
	assert.False(t, recovered)
}

func TestAwaitRecovery_OfACancelledRunIsAnError(t *testing.T) {
	t.Parallel()
	env := parkedUntil(func(context.Context, breaker.Key) error { return nil })
	env.OnActivity(toolcall.AwaitRecoveryActivity, mock.Anything, mock.Anything).Return(nil).After(time.Hour)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	recovered, err := await(t, env)
	assert.True(t, temporal.IsCanceledError(err), "%v", err)
	assert.False(t, recovered)
}

func TestAwaitRecovery_WithoutTimeDoesNotPark(t *testing.T) {
	t.Parallel()
	env := parkedUntil(func(context.Context, breaker.Key) error { return nil })
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

// It is not too early any more, whatever the refusal said.
func TestAwaitRecovery_LetsTheRunCallAgain(t *testing.T) {
	t.Parallel()
	env := parkedUntil(func(context.Context, breaker.Key) error { return nil })
	env.within(t, toolcall.Run{Tools: []string{tool}}, func(ctx workflow.Context) {
		call(ctx, tool, query{})
		call(ctx, tool, query{})
		require.Equal(t, 1, env.started[tool])
		_, err := toolcall.AwaitRecovery(ctx, "carrier-api", "us-east", time.Hour)
		assert.NoError(t, err)
		assert.Empty(t, toolcall.OnOffer(ctx), "another region's recovery says nothing")

		_, err = toolcall.AwaitRecovery(ctx, "carrier-api", "eu-west", time.Hour)
		assert.NoError(t, err)
		assert.Equal(t, []string{tool}, toolcall.OnOffer(ctx))
		assert.Equal(t, 1, call(ctx, tool, query{}).Unavailable.Refusals, "the row has ended")
	})
	assert.Equal(t, 2, env.started[tool])
}

func TestAwaitRecovery_ThatGaveUpForgetsNothing(t *testing.T) {
	t.Parallel()
	env := parkedUntil(func(context.Context, breaker.Key) error {
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

func TestAwaitRecovery_NeedsNoMemory(t *testing.T) {
	t.Parallel()
	env := parkedUntil(func(context.Context, breaker.Key) error { return nil })
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		recovered, err := toolcall.AwaitRecovery(ctx, "carrier-api", "eu-west", time.Hour)
		assert.True(t, recovered)
		return err
	})
	require.NoError(t, env.GetWorkflowError())
}
