package interceptor_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdkinterceptor "go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

const tool = "get_delivery_status"

func answers(context.Context, query) (status, error) { return status{State: "lost"}, nil }

func failsWith(err error) func(context.Context, query) (status, error) {
	return func(context.Context, query) (status, error) { return status{}, err }
}

func TestActivity_WithoutADependencyIsNotChanged(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	env, _ := newWorker(p, "send_mail", answers)
	value, err := env.ExecuteActivity("send_mail", query{})
	require.NoError(t, err)
	var got status
	require.NoError(t, value.Get(&got))
	assert.Equal(t, "lost", got.State)

	failure := errors.New("no such mailbox")
	env, seen := newWorker(p, "send_mail", failsWith(failure))
	_, err = env.ExecuteActivity("send_mail", query{})
	require.Error(t, err)
	assert.Same(t, failure, seen.err)
	assert.Empty(t, p.Breakers(), "there is no breaker")
}

func TestActivity_BehindAClosedBreakerRunsAndIsCounted(t *testing.T) {
	t.Parallel()
	failure := temporal.NewApplicationError("gateway", "BadGateway", "detail")
	for name, c := range map[string]struct {
		end  error
		want breaker.Counts
	}{
		"answered":     {nil, breaker.Counts{Samples: 1}},
		"failed":       {failure, breaker.Counts{Samples: 1, Failures: 1}},
		"rejected":     {httpError(404), breaker.Counts{Samples: 1}},
		"rate-limited": {temporal.NewApplicationErrorWithCause("", "Carrier", httpError(429)), breaker.Counts{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlugin(t, guarded(&clock{}))
			env, seen := newWorker(p, tool, func(context.Context, query) (status, error) { return status{State: "lost"}, c.end })
			_, err := env.ExecuteActivity(tool, query{})
			assert.Equal(t, c.end == nil, err == nil)
			// The SDK compares with ==, for example for the pending result.
			assert.True(t, seen.err == c.end, "the tool's own error, unchanged: %v", seen.err)
			assert.Equal(t, status{State: "lost"}, seen.result)
			assert.Equal(t, c.want, counted(t, p))
		})
	}
}

func TestActivity_IsSlowPastTheLatencyThreshold(t *testing.T) {
	t.Parallel()
	for took, slow := range map[time.Duration]int{5 * time.Second: 0, 5*time.Second + time.Millisecond: 1} {
		c := &clock{}
		p := newPlugin(t, guarded(c))
		env, _ := newWorker(p, tool, func(context.Context, query) (status, error) {
			c.add(took)
			return status{}, nil
		})
		_, err := env.ExecuteActivity(tool, query{})
		require.NoError(t, err)
		assert.Equal(t, breaker.Counts{Samples: 1, Slow: slow}, counted(t, p), took)
	}
}

// refused calls a tool behind an open breaker. The call must not reach the tool.
func refused(t *testing.T, f any) (*seen, error) {
	t.Helper()
	p := newPlugin(t, guarded(&clock{}))
	env, seen := newWorker(p, tool, f)
	open(p)
	_, err := env.ExecuteActivity(tool, query{})
	assert.Equal(t, int64(1), breakerOf(t, p, key).Refused)
	return seen, err
}

var unavailable = toolcall.Unavailable{
	Code: "dependency_unavailable", Dependency: "carrier-api", Region: "eu-west", RegionFrom: "worker",
	Tool: tool, Tools: []string{tool, "create_label"},
	Message: "carrier-api (eu-west) is temporarily unavailable; get_delivery_status was not executed. Do not call it again before 14:00:30 UTC (in 30 s). " +
		"Proceed without this information if you can, or escalate with what you have.",
	Refusals: 1, RetryAfterSeconds: 30, RetryAt: wall.Add(30 * time.Second), Since: wall.Add(-10 * time.Second),
	Rule: breaker.RuleFailureRate, Reason: "12 of 20 calls failed in 10s (over 50%)", Outage: "outage/carrier-api/eu-west",
}

func TestRefusal_IsAValueForATypedResult(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]any{
		"Result": func(context.Context, query) (toolcall.Result[status], error) {
			panic("reached")
		},
		"pointer to a Result": func(context.Context, query) (*toolcall.Result[status], error) {
			panic("reached")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlugin(t, guarded(&clock{}))
			env, _ := newWorker(p, tool, f)
			open(p)
			value, err := env.ExecuteActivity(tool, query{})
			require.NoError(t, err)
			var result toolcall.Result[status]
			require.NoError(t, value.Get(&result))
			assert.Equal(t, toolcall.Result[status]{Unavailable: &unavailable}, result)
		})
	}
}

func TestRefusal_IsAnUnwrappedErrorOtherwise(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]any{
		"struct":     func(context.Context, query) (status, error) { panic("reached") },
		"any":        func(context.Context, query) (any, error) { panic("reached") },
		"error only": func(context.Context, query) error { panic("reached") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen, err := refused(t, f)
			assert.Nil(t, seen.result)
			// The server would retry a wrapped error.
			bare, ok := seen.err.(*temporal.ApplicationError)
			require.True(t, ok, "%T", seen.err)
			assert.True(t, bare.NonRetryable())
			assert.Equal(t, temporal.ApplicationErrorCategoryBenign, bare.Category(), "it is in no log or metric")
			assert.NoError(t, bare.Unwrap())

			var received *temporal.ApplicationError
			require.ErrorAs(t, err, &received)
			assert.Equal(t, toolcall.DependencyUnavailable, received.Type())
			assert.Equal(t, unavailable.Message, received.Message())
			assert.True(t, received.NonRetryable())
			var details toolcall.Unavailable
			require.NoError(t, received.Details(&details))
			assert.Equal(t, unavailable, details)
		})
	}
}

// This is what an agent's workflow gets.
func TestRefusal_IsReturnedByExecute(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]any{
		"plain": func(context.Context, query) (status, error) { panic("reached") },
		"typed": func(context.Context, query) (toolcall.Result[status], error) { panic("reached") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlugin(t, guarded(&clock{}))
			env := newWorkflowEnv()
			env.SetWorkerOptions(options(p, &seen{}))
			env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: tool})
			open(p)
			var result toolcall.Result[status]
			env.ExecuteWorkflow(func(ctx workflow.Context) (err error) {
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
				result, err = toolcall.Execute[status](ctx, tool, query{})
				return err
			})
			require.NoError(t, env.GetWorkflowError())
			assert.Equal(t, &unavailable, result.Unavailable)
			assert.Equal(t, int64(1), breakerOf(t, p, key).Refused, "it is not retried")
		})
	}
}

// A breaker trips by itself, without a fleet. The tools of a dependency share it.
func TestRefusal_FollowsAWindowOfFailures(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	failing, _ := newWorker(p, tool, failsWith(httpError(503)))
	for range 10 {
		_, err := failing.ExecuteActivity(tool, query{})
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.Equal(t, "httpError", app.Type())
	}
	assert.Equal(t, breaker.Open, breakerOf(t, p, key).State)
	for _, name := range []string{tool, "create_label"} {
		env, seen := newWorker(p, name, answers)
		_, err := env.ExecuteActivity(name, query{})
		require.Error(t, err)
		var u toolcall.Unavailable
		require.NoError(t, seen.err.(*temporal.ApplicationError).Details(&u))
		assert.Equal(t, name, u.Tool)
		assert.Equal(t, "10 of 10 calls failed in 10s (over 50%)", u.Reason)
		assert.Empty(t, u.Outage, "there is no outage workflow yet")
		assert.GreaterOrEqual(t, u.RetryAfterSeconds, 27)
	}
}

func TestRegion_HasABreakerOfItsOwn(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, byRegion(guarded(&clock{})))
	open(p) // eu-west
	env, _ := newWorker(p, tool, answers)
	for region, refused := range map[string]bool{
		"eu-west":    true,
		"us-east":    false,
		"":           true, // Config.Region
		"not a name": true, // An invalid name makes no new key.
	} {
		_, err := env.ExecuteActivity(tool, query{Region: region})
		assert.Equal(t, refused, err != nil, "region %q", region)
	}
	var keys []breaker.Key
	for _, s := range p.Breakers() {
		keys = append(keys, s.Key)
	}
	assert.ElementsMatch(t, []breaker.Key{key, {Dependency: "carrier-api", Region: "us-east"}}, keys)
}

func TestRegion_WithoutAConfiguredOneHasAName(t *testing.T) {
	t.Parallel()
	c := byRegion(guarded(&clock{}))
	c.Region = ""
	p := newPlugin(t, c)
	env, _ := newWorker(p, tool, answers)
	_, err := env.ExecuteActivity(tool, query{})
	require.NoError(t, err)
	assert.Equal(t, breaker.Key{Dependency: "carrier-api", Region: "default"}, p.Breakers()[0].Key)
}

// Without its permit back, a breaker counts a call that hangs for ever.
func TestPanic_ReturnsThePermitAndStillPanics(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	env, _ := newWorker(p, tool, func(context.Context, query) (status, error) { panic("nil map") })
	_, err := env.ExecuteActivity(tool, query{})
	var panicked *temporal.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Equal(t, "nil map", panicked.Error())
	assert.Contains(t, panicked.StackTrace(), "TestPanic_ReturnsThePermitAndStillPanics", "the stack is the tool's")
	assert.Equal(t, breaker.Counts{Samples: 1, Failures: 1}, counted(t, p))
}

func TestGoexit_ReturnsThePermit(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	env := newWorkflowEnv()
	env.SetWorkerOptions(options(p, &seen{}))
	env.RegisterActivityWithOptions(func(context.Context, query) (status, error) {
		runtime.Goexit()
		return status{}, nil
	}, activity.RegisterOptions{Name: tool})
	env.ExecuteWorkflow(callOnce, tool)
	require.Error(t, env.GetWorkflowError())
	assert.Equal(t, breaker.Counts{Samples: 1, Failures: 1}, counted(t, p))
}

func callOnce(ctx workflow.Context, name string) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	return workflow.ExecuteActivity(ctx, name, query{}).Get(ctx, nil)
}

// A run whose own input makes every attempt fail must not trip the breaker by retries.
func TestAttempts_BeyondTheCountedOnesAreNoSamples(t *testing.T) {
	t.Parallel()
	for attempts, samples := range map[int32]int{1: 1, 3: 3, 4: 3, 8: 3} {
		p := newPlugin(t, guarded(&clock{}))
		env := newWorkflowEnv()
		env.SetWorkerOptions(options(p, &seen{}))
		var calls atomic.Int32
		env.RegisterActivityWithOptions(func(context.Context, query) (status, error) {
			calls.Add(1)
			return status{}, httpError(503)
		}, activity.RegisterOptions{Name: tool})
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
				StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: attempts},
			})
			return workflow.ExecuteActivity(ctx, tool, query{}).Get(ctx, nil)
		})
		require.Error(t, env.GetWorkflowError())
		assert.Equal(t, attempts, calls.Load(), "all of them pass")
		assert.Equal(t, breaker.Counts{Samples: samples, Failures: samples}, counted(t, p), "%d attempts", attempts)
	}
}

// The server has timed the attempt out, even if the tool succeeds afterwards.
func TestDeadline_OfTheAttemptIsAFailure(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	env := newWorkflowEnv()
	env.SetWorkerOptions(options(p, &seen{}))
	env.RegisterActivityWithOptions(func(ctx context.Context, _ query) (status, error) {
		<-ctx.Done()
		return status{State: "lost"}, nil
	}, activity.RegisterOptions{Name: tool})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: 10 * time.Millisecond, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		})
		return workflow.ExecuteActivity(ctx, tool, query{}).Get(ctx, nil)
	})
	require.Error(t, env.GetWorkflowError())
	assert.Equal(t, breaker.Counts{Samples: 1, Failures: 1}, counted(t, p))
}

// completing is a client that accepts completed activities.
type completing struct{ client.Client }

func (completing) CompleteActivity(context.Context, []byte, any, error) error { return nil }

// The activity may be completed before the tool returns.
func TestCompletion_MayPrecedeTheReturnOfTheTool(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  error
		want breaker.Counts
	}{
		"with success":  {nil, breaker.Counts{Samples: 1}},
		"with an error": {httpError(503), breaker.Counts{Samples: 1, Failures: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := interceptor.NewPlugin(completing{}, guarded(&clock{}))
			require.NoError(t, err)
			env, seen := newWorker(p, tool, func(ctx context.Context, _ query) (status, error) {
				if err := p.CompleteActivity(ctx, activity.GetInfo(ctx).TaskToken, status{}, c.end); err != nil {
					return status{}, err
				}
				return status{}, activity.ErrResultPending
			})
			_, _ = env.ExecuteActivity(tool, query{})
			assert.Equal(t, activity.ErrResultPending, seen.err)
			assert.Equal(t, c.want, counted(t, p))
		})
	}
}

// late is an interceptor that waits until the deadline has passed.
type late struct {
	sdkinterceptor.WorkerInterceptorBase
}

func (*late) InterceptActivity(_ context.Context, next sdkinterceptor.ActivityInboundInterceptor) sdkinterceptor.ActivityInboundInterceptor {
	return &lateInbound{sdkinterceptor.ActivityInboundInterceptorBase{Next: next}}
}

type lateInbound struct {
	sdkinterceptor.ActivityInboundInterceptorBase
}

func (i *lateInbound) ExecuteActivity(ctx context.Context, in *sdkinterceptor.ExecuteActivityInput) (any, error) {
	ctx, cancel := context.WithDeadline(ctx, time.Now().Add(-time.Second))
	defer cancel()
	return i.Next.ExecuteActivity(ctx, in)
}

func TestDeadline_MayHavePassedBeforeTheCall(t *testing.T) {
	t.Parallel()
	const calls = 9
	p := newPlugin(t, guarded(&clock{}))
	env := newWorkerWith(worker.Options{Plugins: []worker.Plugin{unstarted{plugin: p, outermost: &late{}}}}, tool,
		func(ctx context.Context, _ query) (status, error) { return status{}, ctx.Err() })
	for range calls {
		_, err := env.ExecuteActivity(tool, query{})
		require.Error(t, err)
	}
	assert.Equal(t, breaker.Counts{Samples: calls, Failures: calls}, counted(t, p))
}

// The server times an attempt out after its heartbeat timeout, even if it succeeds later.
func TestHeartbeat_MissedIsAFailure(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Second
	fine, lost := breaker.Counts{Samples: 1}, breaker.Counts{Samples: 1, Failures: 1}
	for name, c := range map[string]struct {
		do   func(ctx context.Context, wait func(time.Duration))
		want breaker.Counts
	}{
		"in time": {func(ctx context.Context, wait func(time.Duration)) {
			wait(timeout)
		}, fine},
		"never": {func(ctx context.Context, wait func(time.Duration)) {
			wait(timeout + 1)
		}, lost},
		// The SDK may have sent the last heartbeat later than the tool recorded it.
		"a little late after a heartbeat": {func(ctx context.Context, wait func(time.Duration)) {
			activity.RecordHeartbeat(ctx)
			wait(2 * timeout)
		}, fine},
		"too late after a heartbeat": {func(ctx context.Context, wait func(time.Duration)) {
			activity.RecordHeartbeat(ctx)
			wait(2*timeout + 1)
		}, lost},
		"again and again": {func(ctx context.Context, wait func(time.Duration)) {
			for range 5 {
				wait(timeout)
				activity.RecordHeartbeat(ctx)
			}
		}, fine},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &clock{}
			config := guarded(clock)
			config.Dependencies[0].Breaker.Latency = time.Hour
			p := newPlugin(t, config)
			env := newWorkflowEnv()
			env.SetWorkerOptions(options(p, &seen{}))
			env.RegisterActivityWithOptions(func(ctx context.Context, _ query) (status, error) {
				c.do(ctx, clock.add)
				return status{}, nil
			}, activity.RegisterOptions{Name: tool})
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
					StartToCloseTimeout: time.Hour, HeartbeatTimeout: timeout,
				})
				return workflow.ExecuteActivity(ctx, tool, query{}).Get(ctx, nil)
			})
			require.NoError(t, env.GetWorkflowError())
			assert.Equal(t, c.want, counted(t, p))
		})
	}
}

// stopping calls a tool on a worker that is shut down during the call.
func stopping(t *testing.T, p *interceptor.Plugin) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	o := options(p, &seen{})
	o.BackgroundActivityContext = ctx
	env := newWorkerWith(o, tool, func(ctx context.Context, _ query) (status, error) {
		stop()
		return status{}, ctx.Err()
	})
	_, err := env.ExecuteActivity(tool, query{})
	require.Error(t, err)
}

func TestShutdown_IsIgnored(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	stopping(t, p)
	assert.Zero(t, counted(t, p))
}

func TestClassifier_OfTheDependencyComesFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		classify func(result any, err error) (breaker.Outcome, bool)
		end      error
		want     breaker.Counts
	}{
		"an answer counts as a failure": {
			func(result any, _ error) (breaker.Outcome, bool) {
				return breaker.Failure, result == status{State: "lost"}
			},
			nil, breaker.Counts{Samples: 1, Failures: 1},
		},
		"an error counts as a success": {
			func(_ any, err error) (breaker.Outcome, bool) { return breaker.Success, errors.Is(err, httpError(503)) },
			httpError(503), breaker.Counts{Samples: 1},
		},
		"a rejection counts as a failure": {
			func(_ any, err error) (breaker.Outcome, bool) { return breaker.Failure, err != nil },
			httpError(404), breaker.Counts{Samples: 1, Failures: 1},
		},
		"an error is ignored": {
			func(any, error) (breaker.Outcome, bool) { return breaker.Ignored, true },
			httpError(503), breaker.Counts{},
		},
		"no decision": {
			func(any, error) (breaker.Outcome, bool) { return breaker.Success, false },
			httpError(503), breaker.Counts{Samples: 1, Failures: 1},
		},
		"a panic": {
			func(any, error) (breaker.Outcome, bool) { panic("nil map") },
			httpError(503), breaker.Counts{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := guarded(&clock{})
			config.Dependencies[0].Classify = c.classify
			p := newPlugin(t, config)
			env, seen := newWorker(p, tool, func(context.Context, query) (status, error) { return status{State: "lost"}, c.end })
			_, _ = env.ExecuteActivity(tool, query{})
			assert.True(t, seen.err == c.end, "the tool's error is not changed")
			assert.Equal(t, c.want, counted(t, p))
		})
	}
}

// The classifier knows the dependency's answers, but not who cancelled a call.
func TestClassifier_OfTheDependencyIsNotCalledForACancelledCall(t *testing.T) {
	t.Parallel()
	config := guarded(&clock{})
	config.Dependencies[0].Classify = func(any, error) (breaker.Outcome, bool) { return breaker.Failure, true }
	p := newPlugin(t, config)
	stopping(t, p)
	assert.Zero(t, counted(t, p))
}

func TestApply_AppliesTheBoardsTable(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	entry := func(dependency string, state breaker.State, epoch int64) fleet.Entry {
		return fleet.Entry{
			Key:     breaker.Key{Dependency: dependency, Region: "us-east"},
			Verdict: breaker.Verdict{State: state, Epoch: epoch, Share: 10, Next: wall.Add(time.Minute), Outage: "outage"},
		}
	}
	p.Apply(fleet.Table{Entries: []fleet.Entry{entry("carrier-api", breaker.Open, 5), entry("other", breaker.Open, 5)}})
	require.Len(t, p.Breakers(), 1, "only configured dependencies")
	snapshot := p.Breakers()[0]
	assert.Equal(t, "us-east", snapshot.Key.Region, "even if this process has not called it")
	assert.Equal(t, breaker.Open, snapshot.State)
	p.Apply(fleet.Table{Entries: []fleet.Entry{entry("carrier-api", breaker.Closed, 4)}})
	assert.Equal(t, breaker.Open, p.Breakers()[0].State, "an older verdict changes nothing")
	p.Apply(fleet.Table{Entries: []fleet.Entry{entry("carrier-api", breaker.Closed, 6)}})
	assert.Equal(t, breaker.Closed, p.Breakers()[0].State)
}
