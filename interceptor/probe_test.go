package interceptor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// callFrom runs an activity once, called by a workflow of this type, and returns what the
// worker sends for it.
func callFrom(t *testing.T, p *interceptor.Plugin, workflowType, name string, f any, change ...func(*worker.Options)) *seen {
	t.Helper()
	var s seen
	env := newWorkflowEnv()
	o := options(p, &s)
	for _, c := range change {
		c(&o)
	}
	env.SetWorkerOptions(o)
	env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	env.RegisterWorkflowWithOptions(callOnce, workflow.RegisterOptions{Name: workflowType})
	env.ExecuteWorkflow(workflowType, name)
	require.True(t, env.IsWorkflowCompleted())
	return &s
}

// An open breaker refuses customers' calls. Probes must pass, to detect recovery.
func TestProbe_PassesAnOpenBreakerAndIsNoSample(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*interceptor.Plugin){"open": open, "closed": func(p *interceptor.Plugin) {
		env, _ := newWorker(p, tool, answers)
		_, err := env.ExecuteActivity(tool, query{})
		require.NoError(t, err)
	}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlugin(t, guarded(&clock{}))
			prepare(p)
			before := breakerOf(t, p, key)
			called := false
			sent := callFrom(t, p, probeworkflow.ProbeWorkflow, tool, func(context.Context, query) (status, error) {
				called = true
				return status{State: "lost"}, nil
			})
			assert.True(t, called)
			require.NoError(t, sent.err)
			assert.Nil(t, sent.result, "the answer is kept out of the history")
			assert.Equal(t, before, breakerOf(t, p, key))
		})
	}
}

// A tool can mark the call for the dependency, for example with a header.
func TestProbe_IsMarkedInTheContext(t *testing.T) {
	t.Parallel()
	for workflowType, want := range map[string]bool{probeworkflow.ProbeWorkflow: true, "SupportAgent": false, probeworkflow.OutageWorkflow: false} {
		p := newPlugin(t, guarded(&clock{}))
		var is bool
		sent := callFrom(t, p, workflowType, tool, func(ctx context.Context, _ query) (status, error) {
			is = breaker.IsProbe(ctx)
			return status{}, nil
		})
		require.NoError(t, sent.err)
		assert.Equal(t, want, is, workflowType)
	}
}

// A standalone activity has no workflow type.
func TestProbe_IsNotAStandaloneActivity(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	env, _ := newWorker(p, tool, func(ctx context.Context, _ query) (status, error) {
		assert.Nil(t, activity.GetInfo(ctx).WorkflowType)
		assert.False(t, breaker.IsProbe(ctx))
		return status{}, nil
	})
	env.SetExecuteActivitiesInWorkflow(false)
	_, err := env.ExecuteActivity(tool, query{})
	require.NoError(t, err)
	assert.Equal(t, 1, counted(t, p).Samples)
}

// Any other activity of a probe workflow is guarded like a customer's call.
func TestProbe_IsOnlyTheConfiguredActivity(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	sent := callFrom(t, p, probeworkflow.ProbeWorkflow, "create_label", func(ctx context.Context, _ query) (status, error) {
		assert.False(t, breaker.IsProbe(ctx))
		return status{State: "lost"}, nil
	})
	assert.Equal(t, status{State: "lost"}, sent.result)
	assert.Equal(t, 1, counted(t, p).Samples)
}

// Customers' calls of an activity that was written as a probe are not counted.
func TestProbe_MayBeNoTool(t *testing.T) {
	t.Parallel()
	c := guarded(&clock{})
	c.Dependencies[0].Probe = interceptor.Synthetic("ping_carrier")
	p := newPlugin(t, c)
	var is []bool
	ping := func(ctx context.Context, _ query) (status, error) {
		is = append(is, breaker.IsProbe(ctx))
		return status{}, httpError(503)
	}
	asProbe := callFrom(t, p, probeworkflow.ProbeWorkflow, "ping_carrier", ping)
	asCall := callFrom(t, p, "SupportAgent", "ping_carrier", ping)
	assert.Equal(t, []bool{true, false}, is)
	assert.Equal(t, probeworkflow.ProbeFailed, asProbe.err.(*temporal.ApplicationError).Type())
	assert.Equal(t, httpError(503), asCall.err)
	assert.Empty(t, p.Breakers())
}

func TestProbe_EndsInAnErrorOfTheProbeWorkflow(t *testing.T) {
	t.Parallel()
	const failed, ignored = probeworkflow.ProbeFailed, probeworkflow.ProbeIgnored
	lost := func(result any, _ error) (breaker.Outcome, bool) {
		return breaker.Failure, result == status{State: "lost"}
	}
	for name, c := range map[string]struct {
		end           error
		classify      func(any, error) (breaker.Outcome, bool)
		kind, message string
	}{
		"answered":             {end: nil},
		"failed":               {end: httpError(503), kind: failed, message: "failed"},
		"failed for no reason": {end: errors.New("hunter2"), kind: failed, message: "failed"},
		"rate-limited":         {end: httpError(429), kind: ignored, message: "outcome ignored"},
		"pending":              {end: activity.ErrResultPending, kind: ignored, message: "outcome ignored"},
		"pending, with a classifier for errors": {
			end: activity.ErrResultPending, classify: func(_ any, err error) (breaker.Outcome, bool) { return breaker.Failure, err != nil },
			kind: ignored, message: "outcome ignored",
		},
		// For a customer's call this is a healthy answer. A synthetic call must succeed, because
		// a rejected one may not reach what it should test.
		"rejected":                            {end: httpError(404), kind: failed, message: "rejected"},
		"rejected, non-retryable":             {end: temporal.NewNonRetryableApplicationError("hunter2", "UnknownParcel", nil, "hunter2"), kind: failed, message: "rejected"},
		"an answer that the classifier fails": {end: nil, classify: lost, kind: failed, message: "failed"},
		"an error that the classifier accepts": {
			end: httpError(503), classify: func(any, error) (breaker.Outcome, bool) { return breaker.Success, true }, kind: failed, message: "rejected",
		},
		"an outcome that the classifier ignores": {
			end: httpError(503), classify: func(any, error) (breaker.Outcome, bool) { return breaker.Ignored, true },
			kind: ignored, message: "outcome ignored",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := guarded(&clock{})
			config.Dependencies[0].Classify = c.classify
			p := newPlugin(t, config)
			sent := callFrom(t, p, probeworkflow.ProbeWorkflow, tool, func(context.Context, query) (status, error) { return status{State: "lost"}, c.end })
			assert.Nil(t, sent.result)
			if c.kind == "" {
				require.NoError(t, sent.err)
				return
			}
			bare, ok := sent.err.(*temporal.ApplicationError)
			require.True(t, ok, "%T", sent.err)
			assert.Equal(t, c.kind, bare.Type())
			assert.Equal(t, c.message, bare.Message(), "the tool's own message is not included")
			assert.NoError(t, bare.Unwrap())
			assert.False(t, bare.HasDetails())
			assert.True(t, bare.NonRetryable())
			assert.Equal(t, temporal.ApplicationErrorCategoryBenign, bare.Category())
		})
	}
}

// A slow probe has failed, even if it gets an answer.
func TestProbe_FailsOverTheLatencyThreshold(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]string{5 * time.Second: "", 5*time.Second + time.Nanosecond: "slower than the latency threshold"} {
		c := &clock{}
		sent := callFrom(t, newPlugin(t, guarded(c)), probeworkflow.ProbeWorkflow, tool, func(ctx context.Context, _ query) (status, error) {
			deadline, bounded := ctx.Deadline()
			assert.True(t, bounded)
			assert.InDelta(t, 5, time.Until(deadline).Seconds(), 1, "the threshold, well before the activity's own minute")
			c.add(took)
			return status{}, nil
		})
		if want == "" {
			assert.NoError(t, sent.err)
			continue
		}
		require.Error(t, sent.err)
		assert.Equal(t, probeworkflow.ProbeFailed, sent.err.(*temporal.ApplicationError).Type())
		assert.Equal(t, want, sent.err.(*temporal.ApplicationError).Message())
	}
}

// A hanging call is cut off by its context, in real time.
func TestProbe_ThatHangsFails(t *testing.T) {
	t.Parallel()
	c := guarded(nil)
	c.Clock = nil
	c.Dependencies[0].Breaker = breaker.Config{Latency: 20 * time.Millisecond, ProbeInterval: 20 * time.Millisecond}
	sent := callFrom(t, newPlugin(t, c), probeworkflow.ProbeWorkflow, tool, func(ctx context.Context, _ query) (status, error) {
		<-ctx.Done()
		return status{}, ctx.Err()
	})
	require.Error(t, sent.err)
	assert.Equal(t, probeworkflow.ProbeFailed, sent.err.(*temporal.ApplicationError).Type())
}

func TestProbe_OnAWorkerThatShutsDownIsIgnored(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(context.Background())
	c := &clock{}
	sent := callFrom(t, newPlugin(t, guarded(c)), probeworkflow.ProbeWorkflow, tool, func(ctx context.Context, _ query) (status, error) {
		stop()
		<-ctx.Done()
		c.add(time.Minute)
		return status{}, ctx.Err()
	}, func(o *worker.Options) { o.BackgroundActivityContext = ctx })
	require.Error(t, sent.err)
	assert.Equal(t, probeworkflow.ProbeIgnored, sent.err.(*temporal.ApplicationError).Type())
}

func TestProbe_StillPanics(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	env := newWorkflowEnv()
	env.SetWorkerOptions(options(p, &seen{}))
	env.RegisterActivityWithOptions(func(context.Context, query) (status, error) { panic("nil map") }, activity.RegisterOptions{Name: tool})
	env.RegisterWorkflowWithOptions(callOnce, workflow.RegisterOptions{Name: probeworkflow.ProbeWorkflow})
	env.ExecuteWorkflow(probeworkflow.ProbeWorkflow, tool)
	var panicked *temporal.PanicError
	assert.ErrorAs(t, env.GetWorkflowError(), &panicked)
}

// The probe workflow understands the errors of the interceptor.
func TestProbe_FindingsOfTheProbeWorkflow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  error
		want probeworkflow.ProbedCall
	}{
		"answered":     {nil, probeworkflow.ProbedCall{Finding: probeworkflow.Passed}},
		"failed":       {httpError(503), probeworkflow.ProbedCall{Finding: probeworkflow.Failed, Observed: "failed"}},
		"rejected":     {httpError(404), probeworkflow.ProbedCall{Finding: probeworkflow.Failed, Observed: "rejected"}},
		"rate-limited": {httpError(429), probeworkflow.ProbedCall{Finding: probeworkflow.Inconclusive, Observed: "outcome ignored"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlugin(t, guarded(&clock{}))
			open(p)
			env := newWorkflowEnv()
			env.SetWorkerOptions(options(p, &seen{}))
			var got query
			env.RegisterActivityWithOptions(func(_ context.Context, q query) (status, error) {
				got = q
				return status{}, c.end
			}, activity.RegisterOptions{Name: tool})
			env.RegisterWorkflowWithOptions(probeworkflow.Probe, workflow.RegisterOptions{Name: probeworkflow.ProbeWorkflow})
			settings, err := p.Settings(key)
			require.NoError(t, err)
			env.ExecuteWorkflow(probeworkflow.ProbeWorkflow, probeworkflow.ProbeInput{
				Key: key, Call: *settings.Call, Successes: 1, Timeout: settings.Breaker.Latency, Interval: settings.Breaker.ProbeInterval,
			})
			require.NoError(t, env.GetWorkflowError())
			var report probeworkflow.ProbeReport
			require.NoError(t, env.GetWorkflowResult(&report))
			require.Len(t, report.Calls, 1)
			assert.Equal(t, c.want.Finding, report.Calls[0].Finding)
			assert.Equal(t, c.want.Observed, report.Calls[0].Observed)
			assert.Equal(t, query{ID: "PROBE-1"}, got)
		})
	}
}
