package probeworkflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// query is a tool's input.
type query struct {
	ID string `json:"id"`
}

// prober runs the probe workflow against a tool.
type prober struct {
	t   *testing.T
	env *testsuite.TestWorkflowEnvironment
	// tool returns the error of the n-th synthetic call, from 1. Default: none.
	tool  func(n int) error
	calls []query
	infos []activity.Info
}

func newProber(t *testing.T) *prober {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	p := &prober{t: t, env: suite.NewTestWorkflowEnvironment(), tool: func(int) error { return nil }}
	p.env.SetStartTime(start)
	p.env.SetTestTimeout(time.Minute)
	p.env.RegisterActivityWithOptions(func(ctx context.Context, q query) (string, error) {
		p.calls, p.infos = append(p.calls, q), append(p.infos, activity.GetInfo(ctx))
		return "delivered", p.tool(len(p.calls))
	}, activity.RegisterOptions{Name: "get_delivery_status"})
	return p
}

func probeInput(t *testing.T, successes int) probeworkflow.ProbeInput {
	t.Helper()
	args, err := probeworkflow.EncodeArgs(converter.GetDefaultDataConverter(), []any{query{ID: "PROBE-1"}})
	require.NoError(t, err)
	return probeworkflow.ProbeInput{
		Key: key, Successes: successes, Timeout: 2 * time.Second, Interval: time.Second,
		Call: probeworkflow.Call{Activity: "get_delivery_status", Args: args, TaskQueue: "tools", QueueTimeout: 8 * time.Second},
	}
}

func (p *prober) run(in probeworkflow.ProbeInput) probeworkflow.ProbeReport {
	p.t.Helper()
	p.env.ExecuteWorkflow(probeworkflow.Probe, in)
	require.True(p.t, p.env.IsWorkflowCompleted())
	require.NoError(p.t, p.env.GetWorkflowError())
	var report probeworkflow.ProbeReport
	require.NoError(p.t, p.env.GetWorkflowResult(&report))
	return report
}

func (p *prober) details() string {
	p.t.Helper()
	value, err := p.env.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(p.t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(p.t, value.Get(&metadata))
	return metadata.GetCurrentDetails()
}

func TestProbe_PassesAfterEnoughSuccesses(t *testing.T) {
	t.Parallel()
	for _, successes := range []int{1, 3} {
		p := newProber(t)
		report := p.run(probeInput(t, successes))
		assert.Equal(t, probeworkflow.Passed, report.Finding)
		require.Len(t, report.Calls, successes)
		for n, call := range report.Calls {
			assert.Equal(t, probeworkflow.Passed, call.Finding)
			assert.True(t, start.Add(time.Duration(n)*time.Second).Equal(call.At), "one call at a time, with a pause between them")
			assert.Equal(t, "0s", call.Took)
			assert.Empty(t, call.Observed)
		}
		assert.True(t, start.Add(time.Duration(successes-1)*time.Second).Equal(p.env.Now()), "no pause after the last call")
	}
}

func TestProbe_EndsWithTheFirstFailure(t *testing.T) {
	t.Parallel()
	for failing := 1; failing <= 3; failing++ {
		p := newProber(t)
		p.tool = func(n int) error {
			if n == failing {
				return temporal.NewApplicationError("", "BadGateway")
			}
			return nil
		}
		report := p.run(probeInput(t, 3))
		assert.Equal(t, probeworkflow.Failed, report.Finding)
		require.Len(t, report.Calls, failing)
		last := report.Calls[failing-1]
		assert.Equal(t, probeworkflow.Failed, last.Finding)
		assert.Equal(t, "BadGateway", last.Observed)
		assert.Len(t, p.calls, failing, "a probe is never retried")
	}
}

func TestProbe_CallsTheToolOnItsTaskQueue(t *testing.T) {
	t.Parallel()
	p := newProber(t)
	p.run(probeInput(t, 1))
	assert.Equal(t, []query{{ID: "PROBE-1"}}, p.calls)
	assert.Equal(t, "tools", p.infos[0].TaskQueue, "the tool's task queue")
}

func TestProbe_PassesSeveralArguments(t *testing.T) {
	t.Parallel()
	p := newProber(t)
	var got []any
	p.env.RegisterActivityWithOptions(func(_ context.Context, q query, n int, raw []byte) error {
		got = []any{q, n, raw}
		return nil
	}, activity.RegisterOptions{Name: "search"})
	want := []any{query{ID: "PROBE-1"}, 17, []byte{0xff}}
	args, err := probeworkflow.EncodeArgs(converter.GetDefaultDataConverter(), want)
	require.NoError(t, err)
	in := probeInput(t, 1)
	in.Call.Activity, in.Call.Args = "search", args
	assert.Equal(t, probeworkflow.Passed, p.run(in).Finding)
	assert.Equal(t, want, got)
}

func TestProbe_PassesNoArguments(t *testing.T) {
	t.Parallel()
	p := newProber(t)
	called := false
	p.env.RegisterActivityWithOptions(func(context.Context) error { called = true; return nil }, activity.RegisterOptions{Name: "ping"})
	in := probeInput(t, 1)
	in.Call.Activity, in.Call.Args = "ping", nil
	assert.Equal(t, probeworkflow.Passed, p.run(in).Finding)
	assert.True(t, called)
}

// A call must end if no worker takes it, and if the tool ignores its context.
func TestProbe_BoundsEveryCall(t *testing.T) {
	t.Parallel()
	p := newProber(t)
	spy := &spy{}
	p.env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{spy}})
	p.run(probeInput(t, 1))
	require.Len(t, spy.options, 1)
	o := spy.options[0]
	assert.Equal(t, "tools", o.TaskQueue)
	assert.Equal(t, 8*time.Second, o.ScheduleToStartTimeout)
	assert.Equal(t, 4*time.Second, o.StartToCloseTimeout, "longer than the interceptor's deadline, the latency threshold")
	assert.Equal(t, int32(1), o.RetryPolicy.MaximumAttempts)
	assert.True(t, o.DisableEagerExecution, "the outage's worker is not the tool's")
	assert.Equal(t, "synthetic call 1 of 1 to carrier-api/eu-west", o.Summary)
}

// spy records the options of each activity. If err is set, the activity fails with
// it, as with a server's error that no activity can return.
type spy struct {
	interceptor.WorkerInterceptorBase
	options []workflow.ActivityOptions
	err     error
}

func (s *spy) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &spyInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, s}
}

type spyInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	spy *spy
}

func (i *spyInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&spyOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, i.spy})
}

type spyOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	spy *spy
}

func (o *spyOutbound) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	o.spy.options = append(o.spy.options, workflow.GetActivityOptions(ctx))
	if o.spy.err == nil {
		return o.Next.ExecuteActivity(ctx, activityType, args...)
	}
	future, settable := workflow.NewFuture(ctx)
	settable.SetError(o.spy.err)
	return future
}

// secret stands for data that must not be recorded: hosts, credentials, customer
// data.
const secret = "dial carrier.internal: password hunter2 rejected"

func TestProbe_ClassifiesErrorsByKind(t *testing.T) {
	t.Parallel()
	timeout := func(kind enums.TimeoutType) error {
		return fmt.Errorf("activity error: %w", temporal.NewTimeoutError(kind, errors.New(secret)))
	}
	for name, c := range map[string]struct {
		err      error
		finding  probeworkflow.Finding
		observed string
	}{
		"schedule-to-start timeout": {timeout(enums.TIMEOUT_TYPE_SCHEDULE_TO_START), probeworkflow.Inconclusive, "no worker took the call"},
		"start-to-close timeout":    {timeout(enums.TIMEOUT_TYPE_START_TO_CLOSE), probeworkflow.Failed, "no answer"},
		"schedule-to-close timeout": {timeout(enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE), probeworkflow.Failed, "no answer"},
		"heartbeat timeout":         {timeout(enums.TIMEOUT_TYPE_HEARTBEAT), probeworkflow.Failed, "no answer"},
		"cancelled":                 {temporal.NewCanceledError(secret), probeworkflow.Inconclusive, "cancelled"},
		"another error":             {errors.New(secret), probeworkflow.Failed, "error"},
		"interceptor: failed":       {temporal.NewApplicationError("slower than the latency threshold", probeworkflow.ProbeFailed), probeworkflow.Failed, "slower than the latency threshold"},
		"interceptor: ignored":      {temporal.NewApplicationError("says nothing about the dependency", probeworkflow.ProbeIgnored), probeworkflow.Inconclusive, "says nothing about the dependency"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProber(t)
			p.env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&spy{err: c.err}}})
			report := p.run(probeInput(t, 3))
			assert.Equal(t, c.finding, report.Finding)
			require.Len(t, report.Calls, 1, "the first call that does not pass ends the round")
			assert.Equal(t, c.finding, report.Calls[0].Finding)
			assert.Equal(t, c.observed, report.Calls[0].Observed)
			assertNotRecorded(t, secret, p, report)
		})
	}
}

// Errors that a tool returns pass through Temporal's failure converter.
func TestProbe_RecordsNoErrorText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err      error
		observed string
	}{
		"error":             {errors.New(secret), "error"},
		"wrapped":           {fmt.Errorf("asking: %w", errors.New(secret)), "wrapError"},
		"application error": {temporal.NewApplicationErrorWithCause(secret, "BadGateway", errors.New(secret), secret), "BadGateway"},
		"non-retryable":     {temporal.NewNonRetryableApplicationError(secret, "Forbidden", nil, secret), "Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProber(t)
			p.tool = func(int) error { return c.err }
			report := p.run(probeInput(t, 3))
			assert.Equal(t, probeworkflow.Failed, report.Finding)
			assert.Equal(t, c.observed, report.Calls[0].Observed)
			assertNotRecorded(t, secret, p, report)
		})
	}
	panics := newProber(t)
	panics.tool = func(int) error { panic(secret) }
	report := panics.run(probeInput(t, 3))
	assert.Equal(t, probeworkflow.Failed, report.Finding)
	assertNotRecorded(t, secret, panics, report)
}

func assertNotRecorded(t *testing.T, text string, p *prober, report probeworkflow.ProbeReport) {
	t.Helper()
	result, err := json.Marshal(report)
	require.NoError(t, err)
	assert.NotContains(t, string(result), text)
	assert.NotContains(t, p.details(), text)
}

func TestProbe_RecordsTheDurationOfEachCall(t *testing.T) {
	t.Parallel()
	p := newProber(t)
	p.env.OnActivity("get_delivery_status", anything, anything).Return("delivered", nil).After(1234567 * time.Microsecond)
	report := p.run(probeInput(t, 2))
	require.Len(t, report.Calls, 2)
	assert.Equal(t, "1.235s", report.Calls[0].Took)
	assert.True(t, start.Add(1234567*time.Microsecond+time.Second).Equal(report.Calls[1].At))
	assert.Equal(t, "### Probes passed\n\n| at | finding | took | observed |\n| --- | --- | --- | --- |\n"+
		"| 14:00:00 | passed | 1.235s |  |\n| 14:00:02 | passed | 1.235s |  |\n", p.details())
}

func TestProbe_EndsWhenCancelled(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"calling": 500 * time.Millisecond, "pausing": 1500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProber(t)
			p.env.OnActivity("get_delivery_status", anything, anything).Return("delivered", nil).After(time.Second)
			p.env.RegisterDelayedCallback(p.env.CancelWorkflow, after)
			p.env.ExecuteWorkflow(probeworkflow.Probe, probeInput(t, 3))
			require.True(t, p.env.IsWorkflowCompleted())
			assert.True(t, temporal.IsCanceledError(p.env.GetWorkflowError()), p.env.GetWorkflowError())
			assert.True(t, start.Add(after).Equal(p.env.Now()), "it ends at once")
		})
	}
}
