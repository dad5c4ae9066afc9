package interceptor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdkinterceptor "go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
)

// within calls the tool in a workflow, with this StartToCloseTimeout.
func within(t *testing.T, p *interceptor.Plugin, startToClose time.Duration, f any) error {
	t.Helper()
	env := newWorkflowEnv()
	env.SetWorkerOptions(options(p, &seen{}))
	env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: tool})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: startToClose, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		})
		return workflow.ExecuteActivity(ctx, tool, query{}).Get(ctx, nil)
	})
	return env.GetWorkflowError()
}

// A tool that ignores its context may return long after the server has timed it out.
func TestCall_FailsAtItsDeadline(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	err := within(t, p, 10*time.Millisecond, func(context.Context, query) (status, error) {
		assert.Eventually(t, func() bool { return breakerOf(t, p, key).Evidence.Window.Failures == 1 }, 10*time.Second, time.Millisecond,
			"it is counted before the tool returns")
		return status{State: "lost"}, nil
	})
	require.Error(t, err)
	assert.Equal(t, breaker.Counts{Samples: 1, Failures: 1}, counted(t, p), "the later return is no success")
}

// twice configures a worker with the plugin two times.
type twice struct {
	worker.PluginBase
	plugin *interceptor.Plugin
}

func (twice) Name() string { return "twice" }

func (o twice) ConfigureWorker(ctx context.Context, options worker.PluginConfigureWorkerOptions) error {
	return errors.Join(o.plugin.ConfigureWorker(ctx, options), o.plugin.ConfigureWorker(ctx, options))
}

func TestCall_IsCountedOnceWithThePluginGivenTwice(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	config := guarded(&clock{})
	config.Logger = log.NewStructuredLogger(slog.New(slog.NewTextHandler(&logged, nil)))
	p := newPlugin(t, config)
	env := newWorkerWith(worker.Options{Plugins: []worker.Plugin{twice{plugin: p}}}, tool, answers)
	for range 3 {
		_, err := env.ExecuteActivity(tool, query{})
		require.NoError(t, err)
	}
	assert.Equal(t, breaker.Counts{Samples: 3}, counted(t, p))
	assert.Equal(t, 1, strings.Count(logged.String(), "more than once"), "one warning")
}

// cancelling cancels the activity's context, like a heartbeat that the server answers with
// "not found".
type cancelling struct {
	sdkinterceptor.WorkerInterceptorBase
	cancel *context.CancelCauseFunc
}

func (c *cancelling) InterceptActivity(_ context.Context, next sdkinterceptor.ActivityInboundInterceptor) sdkinterceptor.ActivityInboundInterceptor {
	return &cancellingInbound{sdkinterceptor.ActivityInboundInterceptorBase{Next: next}, c}
}

type cancellingInbound struct {
	sdkinterceptor.ActivityInboundInterceptorBase
	*cancelling
}

func (i *cancellingInbound) ExecuteActivity(ctx context.Context, in *sdkinterceptor.ExecuteActivityInput) (any, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	*i.cancel = cancel
	return i.Next.ExecuteActivity(ctx, in)
}

// The server times out a tool that stops recording heartbeats, and the SDK then cancels
// it. A workflow's cancellation comes while the tool still records them.
func TestCall_WithoutHeartbeatsFails(t *testing.T) {
	t.Parallel()
	for silence, want := range map[time.Duration]breaker.Counts{
		3 * time.Second: {Samples: 1, Failures: 1},
		time.Second:     {},
	} {
		c := &clock{}
		p := newPlugin(t, guarded(c))
		var cancel context.CancelCauseFunc
		o := options(p, &seen{})
		o.Plugins = []worker.Plugin{unstarted{plugin: p, outermost: &cancelling{cancel: &cancel}}}
		env := newWorkflowEnv()
		env.SetWorkerOptions(o)
		env.RegisterActivityWithOptions(func(ctx context.Context, _ query) (status, error) {
			c.add(time.Second)
			activity.RecordHeartbeat(ctx)
			c.add(silence)
			cancel(errors.New("not found"))
			return status{}, ctx.Err()
		}, activity.RegisterOptions{Name: tool})
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
				StartToCloseTimeout: time.Minute, HeartbeatTimeout: 2 * time.Second,
				RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
			})
			return workflow.ExecuteActivity(ctx, tool, query{}).Get(ctx, nil)
		})
		assert.Equal(t, want, counted(t, p), "no heartbeat for %v, timeout 2s", silence)
	}
}

// wrapping is an interceptor that wraps every error.
type wrapping struct {
	sdkinterceptor.WorkerInterceptorBase
}

func (*wrapping) InterceptActivity(_ context.Context, next sdkinterceptor.ActivityInboundInterceptor) sdkinterceptor.ActivityInboundInterceptor {
	return &wrappingInbound{sdkinterceptor.ActivityInboundInterceptorBase{Next: next}}
}

type wrappingInbound struct {
	sdkinterceptor.ActivityInboundInterceptorBase
}

func (i *wrappingInbound) ExecuteActivity(ctx context.Context, in *sdkinterceptor.ExecuteActivityInput) (any, error) {
	result, err := i.Next.ExecuteActivity(ctx, in)
	if err != nil {
		err = fmt.Errorf("in production: %w", err)
	}
	return result, err
}

// A user's interceptor in front of the breaker's once wrapped refusals, so that they were
// retried.
func TestRefusal_IsNotWrappedByInterceptorsOfTheWorker(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	open(p)
	var s seen
	o := options(p, &s)
	o.Interceptors = []sdkinterceptor.WorkerInterceptor{&wrapping{}}
	env := newWorkerWith(o, tool, answers)
	_, err := env.ExecuteActivity(tool, query{})
	require.Error(t, err)
	require.IsType(t, (*temporal.ApplicationError)(nil), s.err)
	assert.True(t, s.err.(*temporal.ApplicationError).NonRetryable())
}
