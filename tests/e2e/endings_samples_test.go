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

// httpStatus is an error by which a tool tells what it was answered.
type httpStatus int

func (s httpStatus) Error() string   { return fmt.Sprintf("status %d", int(s)) }
func (s httpStatus) HTTPStatus() int { return int(s) }

// ending is one way for a call to end.
type ending struct {
	// name is what the tool is called.
	name   string
	config breaker.Config
	do     body
	plan   plan
	// during is done while the call is under way, before its run is waited for.
	during func(t *testing.T, e ending, run client.WorkflowRun)

	want    breaker.Counts
	calls   int
	outcome toolcall.Outcome
	// kind is the type of the tool's error for a model, failure what the activity's
	// future holds.
	kind, failure string
}

// What the breaker records is one sample: that the dependency answered, that it
// failed, or that it was slow. Or none.
var (
	answered = breaker.Counts{Samples: 1}
	failed   = breaker.Counts{Samples: 1, Failures: 1}
	slow     = breaker.Counts{Samples: 1, Slow: 1}
	nothing  = breaker.Counts{}
)

func testEndingsSamples(t *testing.T) {
	b := newBench(t, client.Options{})
	down := hangingServer(t)
	// Each tool that is told to cancel, or that must not end by itself, waits here.
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
	heartbeating := once(workflow.ActivityOptions{HeartbeatTimeout: patience, WaitForCancellation: true})
	fails := func(err error) body {
		return func(context.Context, bool) (string, error) { return "", err }
	}
	endings := []ending{
		{
			name: "success", do: obliging,
			want: answered, calls: 1, outcome: toolcall.OK,
		},
		{
			name: "plain-error", do: fails(errors.New("no connection")),
			want: failed, calls: 1, outcome: toolcall.Failed, kind: toolcall.TypeError, failure: "retryable",
		},
		{
			name: "retryable-application-error", do: fails(temporal.NewApplicationError("busy", "Busy")),
			want: failed, calls: 1, outcome: toolcall.Failed, kind: "Busy", failure: "Busy retryable",
		},
		{
			name: "non-retryable-application-error", do: fails(temporal.NewNonRetryableApplicationError("none", "NoSuchOrder", nil)),
			want: answered, calls: 1, outcome: toolcall.Failed, kind: "NoSuchOrder", failure: "NoSuchOrder non-retryable",
		},
		{
			// A category is for logs and metrics; it does not say who failed.
			name: "benign-application-error",
			do: fails(temporal.NewApplicationErrorWithOptions("busy", "Busy", temporal.ApplicationErrorOptions{
				Category: temporal.ApplicationErrorCategoryBenign,
			})),
			want: failed, calls: 1, outcome: toolcall.Failed, kind: "Busy", failure: "Busy retryable",
		},
		{
			// Temporal looks at the outermost error alone, the breaker at all of them.
			name: "wrapped-non-retryable-error",
			do:   fails(fmt.Errorf("looking it up: %w", temporal.NewNonRetryableApplicationError("none", "NoSuchOrder", nil))),
			want: answered, calls: 1, outcome: toolcall.Failed, kind: "wrapError", failure: "wrapError retryable",
		},
		{
			name: "wrapped-404", do: fails(fmt.Errorf("looking it up: %w", httpStatus(404))),
			want: answered, calls: 1, outcome: toolcall.Failed, kind: "wrapError", failure: "wrapError retryable",
		},
		{
			name: "wrapped-503", do: fails(fmt.Errorf("looking it up: %w", httpStatus(503))),
			want: failed, calls: 1, outcome: toolcall.Failed, kind: "wrapError", failure: "wrapError retryable",
		},
		{
			name: "deadline-of-the-http-client",
			do: func(ctx context.Context, _ bool) (string, error) {
				return get(ctx, &http.Client{Timeout: 50 * time.Millisecond}, down.URL)
			},
			want: failed, calls: 1, outcome: toolcall.Failed, kind: "Error", failure: "Error retryable",
		},
		{
			name: "deadline-of-the-tools-own-context",
			do: func(ctx context.Context, _ bool) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				_, err := get(ctx, http.DefaultClient, down.URL)
				return "", errors.Unwrap(err)
			},
			want: failed, calls: 1, outcome: toolcall.Failed, kind: "deadlineExceededError", failure: "deadlineExceededError retryable",
		},
		{
			// The breaker knows at the deadline, long before the tool comes back.
			name: "start-to-close-of-a-tool-that-ignores-its-context", do: hang,
			plan: plan{Options: once(workflow.ActivityOptions{StartToCloseTimeout: 2 * time.Second})},
			want: failed, calls: 1, outcome: toolcall.Failed, kind: toolcall.TypeTimeout, failure: "StartToClose timeout",
			during: func(t *testing.T, e ending, _ client.WorkflowRun) {
				require.Eventually(t, func() bool { return b.breaker(e.name).Evidence.Window == failed }, soon, 5*time.Millisecond)
				select {
				case <-released:
					assert.Fail(t, "the tool has come back by now")
				default:
				}
			},
		},
		{
			name: "heartbeat-timeout-of-a-tool-that-ignores-its-context", do: func(ctx context.Context, _ bool) (string, error) {
				pauseFor(context.WithoutCancel(ctx), 4*time.Second)
				return "too late", nil
			},
			plan: plan{Options: once(workflow.ActivityOptions{HeartbeatTimeout: 2 * time.Second})},
			want: failed, calls: 1, outcome: toolcall.Failed, kind: toolcall.TypeTimeout, failure: "Heartbeat timeout",
		},
		{
			// Its next heartbeat tells it that the server has given up.
			name: "heartbeat-timeout-of-a-tool-that-then-hears-of-it",
			do: func(ctx context.Context, fail bool) (string, error) {
				activity.RecordHeartbeat(ctx)
				pauseFor(context.WithoutCancel(ctx), 4*time.Second)
				return untilCancelled(ctx, fail)
			},
			plan: plan{Options: once(workflow.ActivityOptions{HeartbeatTimeout: 2 * time.Second})},
			want: failed, calls: 1, outcome: toolcall.Failed, kind: toolcall.TypeTimeout, failure: "Heartbeat timeout",
		},
		{
			// No time is left for the second attempt, so there is none.
			name: "schedule-to-close-over-before-the-next-attempt", do: obliging,
			plan: plan{Fail: true, Options: &workflow.ActivityOptions{
				ScheduleToCloseTimeout: 30 * time.Second, RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Minute},
			}},
			want: failed, calls: 1, outcome: toolcall.Failed, kind: toolcall.TypeError, failure: "retryable",
		},
		{
			// The second attempt hangs until there is no time left.
			name: "schedule-to-close-over-in-the-second-attempt",
			do: func(ctx context.Context, _ bool) (string, error) {
				if activity.GetInfo(ctx).Attempt == 1 {
					return "", errors.New("no connection")
				}
				<-ctx.Done()
				return "", ctx.Err()
			},
			plan: plan{Options: &workflow.ActivityOptions{
				ScheduleToCloseTimeout: 4 * time.Second, RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond},
			}},
			want: breaker.Counts{Samples: 2, Failures: 2}, calls: 2, outcome: toolcall.Failed, kind: toolcall.TypeError, failure: "ScheduleToClose timeout",
		},
		{
			name: "cancelled-by-the-workflow", do: untilCancelled,
			plan: plan{Cancellable: true, Options: heartbeating}, during: b.cancelOnceUnderWay,
			want: nothing, calls: 1, failure: "cancelled",
		},
		{
			// That it was cancelled does not take back that it was slow by then.
			name: "cancelled-once-it-was-slow", do: untilCancelled, config: breaker.Config{MinSamples: 1000, Latency: 50 * time.Millisecond},
			plan: plan{Cancellable: true, Options: heartbeating}, during: func(t *testing.T, e ending, run client.WorkflowRun) {
				require.Eventually(t, func() bool { return b.breaker(e.name).Evidence.Hung == 1 }, soon, 5*time.Millisecond)
				b.cancelOnceUnderWay(t, e, run)
			},
			want: slow, calls: 1, failure: "cancelled",
		},
		{
			name: "panic", do: func(context.Context, bool) (string, error) { panic("nil map") },
			want: failed, calls: 1, outcome: toolcall.Failed, kind: toolcall.TypeError, failure: "panic",
		},
		{
			// The SDK sends no answer for it: the server learns at the deadline.
			name: "goexit", do: func(context.Context, bool) (string, error) { runtime.Goexit(); return "", nil },
			plan: plan{Options: once(workflow.ActivityOptions{StartToCloseTimeout: 2 * time.Second})},
			want: failed, calls: 1, outcome: toolcall.Failed, kind: toolcall.TypeTimeout, failure: "StartToClose timeout",
		},
	}
	for _, e := range endings {
		if e.config.MinSamples == 0 {
			e.config = patient
		}
		b.tool(e.name, e.config, e.do)
	}
	b.open()
	b.carryOutAll(t, endings, func() { close(released) })
	assert.Empty(t, b.edges.all, "no breaker has moved")
}

// carryOutAll lets every call be made at once, and checks how each one ends. last is
// done once all runs have ended, and before what stays recorded is looked at.
func (b *bench) carryOutAll(t *testing.T, endings []ending, last func()) {
	t.Helper()
	answers := make([]func(*testing.T) answer, len(endings))
	for i, e := range endings {
		assert.Equal(t, breaker.Closed, b.breaker(e.name).State)
		e.plan.Tool = e.name
		run := b.start(t, e.plan)
		answers[i] = func(t *testing.T) answer {
			if e.during != nil {
				e.during(t, e, run)
			}
			return await[answer](t, run)
		}
	}
	got := make([]answer, len(endings))
	for i, e := range endings {
		t.Run(e.name+"/ends", func(t *testing.T) {
			got[i] = answers[i](t)
			assert.Equal(t, e.outcome, got[i].outcome(), "%+v", got[i])
			assert.Equal(t, e.kind, got[i].kind())
			assert.Equal(t, e.failure, got[i].Error)
		})
	}
	last()
	for _, e := range endings {
		t.Run(e.name+"/is recorded", func(t *testing.T) {
			b.expect(t, e.name, e.want)
			assert.Equal(t, e.calls, b.calls(e.name), "how often it was really called")
		})
	}
}

// cancelOnceUnderWay has the workflow cancel the call.
func (b *bench) cancelOnceUnderWay(t *testing.T, e ending, run client.WorkflowRun) {
	t.Helper()
	require.Eventually(t, func() bool { return b.calls(e.name) == 1 }, soon, 5*time.Millisecond)
	require.NoError(t, b.client.SignalWorkflow(t.Context(), run.GetID(), run.GetRunID(), "cancel", nil))
}

// hangingServer answers nobody.
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

// pauseFor waits until the time is over, or ctx is done.
func pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
