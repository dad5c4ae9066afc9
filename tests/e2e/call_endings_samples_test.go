package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// httpStatus is a tool's error with the status of an HTTP response.
type httpStatus int

func (s httpStatus) Error() string   { return fmt.Sprintf("status %d", int(s)) }
func (s httpStatus) HTTPStatus() int { return int(s) }

// ending is one way in which a call can end.
type ending struct {
	// name is the name of the tool.
	name   string
	config breaker.Config
	do     toolFunc
	spec   callSpec
	// during, if set, runs while the call is in flight.
	during func(t *testing.T, e ending, run client.WorkflowRun)

	// want are the recorded samples.
	want       breaker.Counts
	executions int
	outcome    toolcall.Outcome
	// errorType is the error type that the model reads, futureError the summary of the
	// error of the activity's future.
	errorType, futureError string
}

// The samples that the breaker can record for one execution.
var (
	answered = breaker.Counts{Samples: 1}
	failed   = breaker.Counts{Samples: 1, Failures: 1}
	slow     = breaker.Counts{Samples: 1, Slow: 1}
	nothing  = breaker.Counts{}
)

func testSamples(t *testing.T) {
	h := newHarness(t, client.Options{})
	down := hangingServer(t)
	// released is closed when all runs have ended.
	released := make(chan struct{})
	hang := func(context.Context, bool) (string, error) {
		<-released
		return "too late", nil
	}
	untilCancelled := func(ctx context.Context, _ bool) (string, error) {
		for ctx.Err() == nil {
			activity.RecordHeartbeat(ctx)
			pauseFor(ctx, 20*time.Millisecond)
		}
		return "", ctx.Err()
	}
	heartbeating := oneAttempt(workflow.ActivityOptions{HeartbeatTimeout: waitTimeout, WaitForCancellation: true})
	fails := func(err error) toolFunc {
		return func(context.Context, bool) (string, error) { return "", err }
	}
	endings := []ending{
		{
			name: "success", do: failOnRequest,
			want: answered, executions: 1, outcome: toolcall.OK,
		},
		{
			name: "plain-error", do: fails(errors.New("no connection")),
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: toolcall.TypeError, futureError: "retryable",
		},
		{
			name: "retryable-application-error", do: fails(temporal.NewApplicationError("busy", "Busy")),
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: "Busy", futureError: "Busy retryable",
		},
		{
			name: "non-retryable-application-error", do: fails(temporal.NewNonRetryableApplicationError("none", "NoSuchOrder", nil)),
			want: answered, executions: 1, outcome: toolcall.Failed, errorType: "NoSuchOrder", futureError: "NoSuchOrder non-retryable",
		},
		{
			// The category of an error affects only logs and metrics.
			name: "benign-application-error",
			do: fails(temporal.NewApplicationErrorWithOptions("busy", "Busy", temporal.ApplicationErrorOptions{
				Category: temporal.ApplicationErrorCategoryBenign,
			})),
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: "Busy", futureError: "Busy retryable",
		},
		{
			// Temporal classifies only the outermost error. The breaker classifies the whole
			// chain.
			name: "wrapped-non-retryable-error",
			do:   fails(fmt.Errorf("looking it up: %w", temporal.NewNonRetryableApplicationError("none", "NoSuchOrder", nil))),
			want: answered, executions: 1, outcome: toolcall.Failed, errorType: "wrapError", futureError: "wrapError retryable",
		},
		{
			name: "wrapped-404", do: fails(fmt.Errorf("looking it up: %w", httpStatus(404))),
			want: answered, executions: 1, outcome: toolcall.Failed, errorType: "wrapError", futureError: "wrapError retryable",
		},
		{
			name: "wrapped-503", do: fails(fmt.Errorf("looking it up: %w", httpStatus(503))),
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: "wrapError", futureError: "wrapError retryable",
		},
		{
			name: "deadline-of-the-http-client",
			do: func(ctx context.Context, _ bool) (string, error) {
				return get(ctx, &http.Client{Timeout: 50 * time.Millisecond}, down.URL)
			},
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: "Error", futureError: "Error retryable",
		},
		{
			name: "deadline-of-the-tools-own-context",
			do: func(ctx context.Context, _ bool) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				_, err := get(ctx, http.DefaultClient, down.URL)
				return "", errors.Unwrap(err)
			},
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: "deadlineExceededError", futureError: "deadlineExceededError retryable",
		},
		{
			// The breaker records the failure at the deadline, before the tool returns.
			name: "start-to-close-of-a-tool-that-ignores-its-context", do: hang,
			spec: callSpec{Options: oneAttempt(workflow.ActivityOptions{StartToCloseTimeout: 2 * time.Second})},
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: toolcall.TypeTimeout, futureError: "StartToClose timeout",
			during: func(t *testing.T, e ending, _ client.WorkflowRun) {
				require.Eventually(t, func() bool { return h.snapshot(e.name).Evidence.Window == failed }, shortTimeout, 5*time.Millisecond)
				select {
				case <-released:
					assert.Fail(t, "the tool must still be running")
				default:
				}
			},
		},
		{
			name: "heartbeat-timeout-of-a-tool-that-ignores-its-context", do: func(ctx context.Context, _ bool) (string, error) {
				pauseFor(context.WithoutCancel(ctx), 4*time.Second)
				return "too late", nil
			},
			spec: callSpec{Options: oneAttempt(workflow.ActivityOptions{HeartbeatTimeout: 2 * time.Second})},
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: toolcall.TypeTimeout, futureError: "Heartbeat timeout",
		},
		{
			// Its next heartbeat after the timeout cancels its context.
			name: "heartbeat-timeout-of-a-tool-that-is-then-cancelled",
			do: func(ctx context.Context, fail bool) (string, error) {
				activity.RecordHeartbeat(ctx)
				pauseFor(context.WithoutCancel(ctx), 4*time.Second)
				return untilCancelled(ctx, fail)
			},
			spec: callSpec{Options: oneAttempt(workflow.ActivityOptions{HeartbeatTimeout: 2 * time.Second})},
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: toolcall.TypeTimeout, futureError: "Heartbeat timeout",
		},
		{
			// The retry interval is longer than the time that is left.
			name: "schedule-to-close-over-before-the-next-attempt", do: failOnRequest,
			spec: callSpec{Fail: true, Options: &workflow.ActivityOptions{
				ScheduleToCloseTimeout: 30 * time.Second, RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Minute},
			}},
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: toolcall.TypeError, futureError: "retryable",
		},
		{
			name: "schedule-to-close-over-in-the-second-attempt",
			do: func(ctx context.Context, _ bool) (string, error) {
				if activity.GetInfo(ctx).Attempt == 1 {
					return "", errors.New("no connection")
				}
				<-ctx.Done()
				return "", ctx.Err()
			},
			spec: callSpec{Options: &workflow.ActivityOptions{
				ScheduleToCloseTimeout: 4 * time.Second, RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond},
			}},
			want: breaker.Counts{Samples: 2, Failures: 2}, executions: 2, outcome: toolcall.Failed, errorType: toolcall.TypeError, futureError: "ScheduleToClose timeout",
		},
		{
			name: "cancelled-by-the-workflow", do: untilCancelled,
			spec: callSpec{Cancellable: true, Options: heartbeating}, during: h.cancelWhileExecuting,
			want: nothing, executions: 1, futureError: "cancelled",
		},
		{
			// A call that passed the latency threshold before it was cancelled is slow.
			name: "cancelled-after-the-latency-threshold", do: untilCancelled, config: breaker.Config{MinSamples: 1000, Latency: 50 * time.Millisecond},
			spec: callSpec{Cancellable: true, Options: heartbeating}, during: func(t *testing.T, e ending, run client.WorkflowRun) {
				require.Eventually(t, func() bool { return h.snapshot(e.name).Evidence.Hung == 1 }, shortTimeout, 5*time.Millisecond)
				h.cancelWhileExecuting(t, e, run)
			},
			want: slow, executions: 1, futureError: "cancelled",
		},
		{
			name: "panic", do: func(context.Context, bool) (string, error) { panic("nil map") },
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: toolcall.TypeError, futureError: "panic",
		},
		{
			// The SDK sends no result, so the activity ends with its timeout.
			name: "goexit", do: func(context.Context, bool) (string, error) { runtime.Goexit(); return "", nil },
			spec: callSpec{Options: oneAttempt(workflow.ActivityOptions{StartToCloseTimeout: 2 * time.Second})},
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: toolcall.TypeTimeout, futureError: "StartToClose timeout",
		},
	}
	for _, e := range endings {
		if e.config.MinSamples == 0 {
			e.config = neverTrips
		}
		h.addTool(e.name, e.config, e.do)
	}
	h.start()
	h.makeCalls(t, endings, func() { close(released) })
	assert.Empty(t, h.transitions.all, "no breaker changes its state")
}

// makeCalls makes all calls concurrently and checks how each ends. last runs when all
// runs have ended, before the samples and executions are checked.
func (h *harness) makeCalls(t *testing.T, endings []ending, last func()) {
	t.Helper()
	results := make([]func(*testing.T) callResult, len(endings))
	for i, e := range endings {
		assert.Equal(t, breaker.Closed, h.snapshot(e.name).State)
		e.spec.Tool = e.name
		run := h.startCall(t, e.spec)
		results[i] = func(t *testing.T) callResult {
			if e.during != nil {
				e.during(t, e, run)
			}
			return awaitResult[callResult](t, run)
		}
	}
	got := make([]callResult, len(endings))
	for i, e := range endings {
		t.Run(e.name+"/result", func(t *testing.T) {
			got[i] = results[i](t)
			assert.Equal(t, e.outcome, got[i].outcome(), "%+v", got[i])
			assert.Equal(t, e.errorType, got[i].errorType())
			assert.Equal(t, e.futureError, got[i].Error)
		})
	}
	last()
	for _, e := range endings {
		t.Run(e.name+"/samples", func(t *testing.T) {
			h.awaitSamples(t, e.name, e.want)
			assert.Equal(t, e.executions, h.executions(e.name), "executions of %s", e.name)
		})
	}
}

// cancelWhileExecuting waits until the tool executes, and lets the workflow cancel the
// call.
func (h *harness) cancelWhileExecuting(t *testing.T, e ending, run client.WorkflowRun) {
	t.Helper()
	require.Eventually(t, func() bool { return h.executions(e.name) == 1 }, shortTimeout, 5*time.Millisecond)
	require.NoError(t, h.client.SignalWorkflow(t.Context(), run.GetID(), run.GetRunID(), "cancel", nil))
}

// hangingServer starts a server that never answers.
func hangingServer(t *testing.T) *httptest.Server {
	t.Helper()
	closing := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-closing:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		close(closing)
		s.Close()
	})
	return s
}

func get(ctx context.Context, c *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := c.Do(request)
	if err != nil {
		return "", err
	}
	return response.Status, response.Body.Close()
}

// pauseFor waits for a duration, or until ctx is done.
func pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
