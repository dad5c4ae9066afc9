package interceptor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
)

// leftPending calls a tool that returns activity.ErrResultPending, and returns its info.
func leftPending(t *testing.T, p *interceptor.Plugin) (info activity.Info) {
	t.Helper()
	env, seen := newWorker(p, tool, func(ctx context.Context, _ query) (status, error) {
		info = activity.GetInfo(ctx)
		return status{}, activity.ErrResultPending
	})
	_, err := env.ExecuteActivity(tool, query{})
	require.Error(t, err)
	// The SDK compares with ==.
	require.True(t, seen.err == activity.ErrResultPending, "%v", seen.err)
	return info
}

func TestPending_IsInFlight(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	leftPending(t, p)
	s := breakerOf(t, p, key)
	assert.Equal(t, 1, s.InFlight)
	assert.Zero(t, s.Evidence.Window)
}

// A pending call has no outcome yet, neither for a customer's call nor for a probe.
func TestPending_DoesNotCallTheClassifier(t *testing.T) {
	t.Parallel()
	config := guarded(&clock{})
	config.Dependencies[0].Classify = func(_ any, err error) (breaker.Outcome, bool) { return breaker.Failure, err != nil }
	p := newPlugin(t, config)
	leftPending(t, p)
	assert.Zero(t, breakerOf(t, p, key).Evidence.Window)
}

func TestPending_HasTheOutcomeOfItsCompletion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want breaker.Counts
	}{
		"with a value": {nil, breaker.Counts{Samples: 1}},
		"rejected":     {temporal.NewNonRetryableApplicationError("", "UnknownParcel", nil), breaker.Counts{Samples: 1}},
		"failed":       {errors.New("?"), breaker.Counts{Samples: 1, Failures: 1}},
		"cancelled":    {temporal.NewCanceledError(), breaker.Counts{}},
	} {
		p := newPlugin(t, guarded(&clock{}))
		info := leftPending(t, p)
		p.Completed(info.TaskToken, status{}, c.err)
		assert.Equal(t, c.want, counted(t, p), name)
		p.Completed(info.TaskToken, status{}, errors.New("?"))
		assert.Equal(t, c.want, counted(t, p), "%s, and completed again", name)
		assert.Zero(t, p.Pending(), "no call is kept")

		p = newPlugin(t, guarded(&clock{}))
		info = leftPending(t, p)
		p.CompletedByID(info.WorkflowExecution.ID, info.ActivityID, status{}, c.err)
		assert.Equal(t, c.want, counted(t, p), "%s, by ID", name)
	}
}

func TestPending_IsSlowPastTheThreshold(t *testing.T) {
	t.Parallel()
	c := &clock{}
	p := newPlugin(t, guarded(c))
	info := leftPending(t, p)
	c.add(time.Minute)
	p.Completed(info.TaskToken, status{}, nil)
	assert.Equal(t, breaker.Counts{Samples: 1, Slow: 1}, counted(t, p))
}

func TestPending_FailsAtItsDeadlineIfNotCompleted(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	require.Error(t, within(t, p, 20*time.Millisecond, func(context.Context, query) (status, error) {
		return status{}, activity.ErrResultPending
	}))
	require.Eventually(t, func() bool { return p.Pending() == 0 }, 10*time.Second, time.Millisecond)
	assert.Equal(t, breaker.Counts{Samples: 1, Failures: 1}, counted(t, p))
}

// To the SDK a wrapped one is an ordinary error, and will not be completed.
func TestPending_WrappedIsAFailure(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	env, _ := newWorker(p, tool, failsWith(fmt.Errorf("later: %w", activity.ErrResultPending)))
	_, err := env.ExecuteActivity(tool, query{})
	require.Error(t, err)
	assert.Zero(t, p.Pending())
	assert.Zero(t, counted(t, p))
}

func TestPending_CompletingAnUnknownCallHasNoEffect(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	p.Completed([]byte("unknown"), nil, nil)
	assert.Empty(t, p.Breakers())
}
