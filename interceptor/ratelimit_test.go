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
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// paced is an error with a status and a Retry-After.
type paced struct {
	httpError
	after time.Duration
}

func (p paced) RetryAfterHint() time.Duration { return p.after }

func TestRateLimit_IsNotAnOutage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		delay time.Duration
	}{
		"429":                  {httpError(429), 0},
		"429, wrapped":         {fmt.Errorf("asking: %w", httpError(429)), 0},
		"429 with Retry-After": {paced{429, 20 * time.Second}, 20 * time.Second},
		"gRPC":                 {grpcstatus.Error(codes.ResourceExhausted, "slow down"), 0},
	} {
		p := newPlugin(t, guarded(&clock{}))
		env, seen := newWorker(p, tool, failsWith(c.err))
		_, err := env.ExecuteActivity(tool, query{})
		require.Error(t, err)
		app, ok := seen.err.(*temporal.ApplicationError)
		require.True(t, ok, name)
		assert.Equal(t, toolcall.DependencyRateLimited, app.Type(), name)
		assert.False(t, app.NonRetryable(), "the retry policy decides")
		assert.ErrorIs(t, app, c.err, "%s: the cause is kept", name)
		assert.GreaterOrEqual(t, app.NextRetryDelay(), c.delay, name)
		assert.LessOrEqual(t, app.NextRetryDelay(), c.delay+c.delay/4, name)
		var limit toolcall.RateLimit
		require.NoError(t, app.Details(&limit))
		assert.Equal(t, tool, limit.Tool)
		assert.Zero(t, counted(t, p), name)
	}
}

// A workflow may depend on the types of its tools' errors.
func TestRateLimit_DoesNotChangeAnApplicationError(t *testing.T) {
	t.Parallel()
	own := temporal.NewApplicationErrorWithCause("", "TooManyRequests", httpError(429))
	p := newPlugin(t, guarded(&clock{}))
	env, seen := newWorker(p, tool, failsWith(own))
	_, err := env.ExecuteActivity(tool, query{})
	require.Error(t, err)
	assert.Same(t, own, seen.err)
	assert.Zero(t, counted(t, p))
}

func TestRateLimit_ReachesTheModel(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"plain":               paced{429, 20 * time.Second},
		"the tool's own type": temporal.NewApplicationErrorWithCause("", "TooManyRequests", httpError(429)),
	} {
		p := newPlugin(t, guarded(&clock{}))
		env := newWorkflowEnv()
		env.SetWorkerOptions(options(p, &seen{}))
		env.RegisterActivityWithOptions(failsWith(end), activity.RegisterOptions{Name: tool})
		var result toolcall.Result[status]
		env.ExecuteWorkflow(func(ctx workflow.Context) (err error) {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
				StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 2},
			})
			result, err = toolcall.Execute[status](ctx, tool, query{})
			return err
		})
		require.NoError(t, env.GetWorkflowError())
		assert.Equal(t, toolcall.RateLimited, result.Outcome(), name)
		assert.Contains(t, result.ForModel(), "is rate-limited: its dependency works", name)
		assert.Equal(t, breaker.Closed, breakerOf(t, p, key).State)
	}
}

// A 503 may have a Retry-After too.
func TestRetryAfter_ExtendsTheCooldown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked           time.Duration
		atLeast, atMost time.Duration
	}{
		"nothing":                {0, 27 * time.Second, 33 * time.Second},
		"less than the cooldown": {10 * time.Second, 27 * time.Second, 33 * time.Second},
		"more":                   {2 * time.Minute, 2 * time.Minute, 2 * time.Minute},
		"more than the maximum":  {time.Hour, 5 * time.Minute, 5 * time.Minute},
	} {
		p := newPlugin(t, guarded(&clock{}))
		env, _ := newWorker(p, tool, failsWith(paced{503, c.asked}))
		for range 10 {
			_, err := env.ExecuteActivity(tool, query{})
			require.Error(t, err)
		}
		s := breakerOf(t, p, key)
		require.Equal(t, breaker.Open, s.State)
		assert.GreaterOrEqual(t, s.Next.Sub(wall), c.atLeast, name)
		assert.LessOrEqual(t, s.Next.Sub(wall), c.atMost, name)
	}
}
