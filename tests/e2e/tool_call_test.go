package e2e_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

// callSpec is a tool call that a workflow makes.
type callSpec struct {
	Tool string
	Fail bool
	// Kind defaults to an activity.
	Kind callKind
	// Queue defaults to "tools", Options to one attempt with the timeout waitTimeout.
	Queue   string
	Options *workflow.ActivityOptions
	// Cancellable calls are cancelled by the signal "cancel".
	Cancellable bool
}

type callKind string

const (
	asActivity callKind = ""
	asLocal    callKind = "local"
	inSession  callKind = "session"
)

// oneAttempt returns the options with one attempt.
func oneAttempt(o workflow.ActivityOptions) *workflow.ActivityOptions {
	if o.StartToCloseTimeout == 0 {
		o.StartToCloseTimeout = waitTimeout
	}
	o.RetryPolicy = &temporal.RetryPolicy{MaximumAttempts: 1}
	return &o
}

// withRetries returns options with a retry every 50 ms. 0 attempts: no limit.
func withRetries(attempts int32, nonRetryable ...string) *workflow.ActivityOptions {
	return &workflow.ActivityOptions{
		StartToCloseTimeout: waitTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 50 * time.Millisecond, BackoffCoefficient: 1, MaximumAttempts: attempts,
			NonRetryableErrorTypes: nonRetryable,
		},
	}
}

// callResult is what a workflow received for a call.
type callResult struct {
	// Result is the result of toolcall. It is nil for a cancelled call.
	Result *toolcall.Result[json.RawMessage]
	// Error is the error of the activity's future, as summarize returns it.
	Error string
}

func (r callResult) outcome() toolcall.Outcome {
	if r.Result == nil {
		return ""
	}
	return r.Result.Outcome()
}

// errorType returns the error type of a failed call.
func (r callResult) errorType() string {
	if r.Result == nil || r.Result.Error == nil {
		return ""
	}
	return r.Result.Error.Type
}

// makeCall is a workflow that makes one call.
func makeCall(ctx workflow.Context, spec callSpec) (callResult, error) {
	options := spec.Options
	if options == nil {
		options = oneAttempt(workflow.ActivityOptions{})
	}
	if spec.Queue != "" {
		options.TaskQueue = spec.Queue
	}
	callCtx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, *options))
	if spec.Cancellable {
		workflow.Go(ctx, func(ctx workflow.Context) {
			workflow.GetSignalChannel(ctx, "cancel").Receive(ctx, nil)
			cancel()
		})
	}
	var future workflow.Future
	switch spec.Kind {
	case asLocal:
		callCtx = workflow.WithLocalActivityOptions(callCtx, workflow.LocalActivityOptions{
			StartToCloseTimeout: options.StartToCloseTimeout, RetryPolicy: options.RetryPolicy,
		})
		future = workflow.ExecuteLocalActivity(callCtx, spec.Tool, spec.Fail)
	case inSession:
		session, err := workflow.CreateSession(callCtx, &workflow.SessionOptions{CreationTimeout: waitTimeout, ExecutionTimeout: waitTimeout})
		if err != nil {
			return callResult{}, err
		}
		defer workflow.CompleteSession(session)
		future = workflow.ExecuteActivity(session, spec.Tool, spec.Fail)
	default:
		future = workflow.ExecuteActivity(callCtx, spec.Tool, spec.Fail)
	}
	var r callResult
	if result, err := toolcall.Get[json.RawMessage](ctx, spec.Tool, future); err == nil {
		r.Result = &result
	}
	r.Error = summarize(future.Get(ctx, nil))
	return r, nil
}

// summarize returns the class, type and retryability of an activity's error.
func summarize(err error) string {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	var cancelled *temporal.CanceledError
	var panicked *temporal.PanicError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &timeout):
		return timeout.TimeoutType().String() + " timeout"
	case errors.As(err, &app):
		if app.NonRetryable() {
			return strings.TrimSpace(app.Type() + " non-retryable")
		}
		return strings.TrimSpace(app.Type() + " retryable")
	case errors.As(err, &cancelled):
		return "cancelled"
	case errors.As(err, &panicked):
		return "panic"
	default:
		return err.Error()
	}
}

// assertRefused checks a refusal. The activity's result is a value or a non-retryable
// error; the outcome of toolcall is the same for both.
func assertRefused(t *testing.T, tool string, got callResult) {
	t.Helper()
	require.Equal(t, toolcall.Refused, got.outcome(), "%+v", got)
	assert.Equal(t, tool, got.Result.Unavailable.Dependency)
	assert.Equal(t, tool, got.Result.Unavailable.Tool)
	assert.Equal(t, region, got.Result.Unavailable.Region)
	assert.Contains(t, got.Result.ForModel(), "was not executed")
	assert.Contains(t, []string{"", toolcall.DependencyUnavailable + " non-retryable"}, got.Error)
}
