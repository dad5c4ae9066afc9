package toolcall_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

const tool = "get_delivery_status"

// newEnv returns an environment with f registered as the tool.
func newEnv(f any) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: tool})
	return env
}

// executeIn calls the tool once in a workflow and returns the results of Execute.
func executeIn[T any](t *testing.T, env *testsuite.TestWorkflowEnvironment) (result toolcall.Result[T], err error) {
	t.Helper()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		result, err = toolcall.Execute[T](once(ctx), tool, "PKG-1")
		return nil
	})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	return result, err
}

// execute is executeIn for a tool that returns this value and error.
func execute[T, R any](t *testing.T, value R, end error) toolcall.Result[T] {
	t.Helper()
	result, err := executeIn[T](t, newEnv(func(context.Context, string) (R, error) { return value, end }))
	require.NoError(t, err, "the run itself is not over")
	return result
}

func once(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 5 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	})
}

var inTransit = status{TrackingID: "PKG-1", State: "in_transit"}

func TestExecute_ReturnsAPlainValue(t *testing.T) {
	t.Parallel()
	assert.Equal(t, toolcall.Value(inTransit), execute[status](t, inTransit, nil))
	assert.Equal(t, toolcall.Value("in transit"), execute[string](t, "in transit", nil))
	assert.Equal(t, toolcall.Value([]status{inTransit}), execute[[]status](t, []status{inTransit}, nil))
}

func TestExecute_PassesTheArguments(t *testing.T) {
	t.Parallel()
	result, err := executeIn[string](t, newEnv(func(_ context.Context, id string) (string, error) { return "got " + id, nil }))
	require.NoError(t, err)
	assert.Equal(t, "got PKG-1", result.Value)
}

func TestExecute_UnwrapsATypedResult(t *testing.T) {
	t.Parallel()
	for name, typed := range map[string]toolcall.Result[status]{
		"value":   toolcall.Value(inTransit),
		"refusal": {Unavailable: unavailable()},
		"failure": {Error: toolError()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, typed, execute[status](t, typed, nil))
			assert.Equal(t, typed, execute[status](t, &typed, nil), "behind a pointer")
		})
	}
}

// The interceptor returns this value for an activity whose result type is a Result[T].
// It does not know T.
func TestExecute_ReadsARefusalFromAValue(t *testing.T) {
	t.Parallel()
	refused := toolcall.Result[json.RawMessage]{Unavailable: unavailable()}
	assert.Equal(t, toolcall.Result[status]{Unavailable: unavailable()}, execute[status](t, refused, nil))
}

func TestExecute_ReadsARefusalFromAnError(t *testing.T) {
	t.Parallel()
	u := unavailable()
	refused := temporal.NewNonRetryableApplicationError(u.Message, toolcall.DependencyUnavailable, nil, *u)
	assert.Equal(t, toolcall.Result[status]{Unavailable: u}, execute[status](t, status{}, refused))
}

// Other code's error of that type is a failure. As a refusal it would tell the model
// nothing.
func TestExecute_ARefusalWithoutDetailsIsAFailure(t *testing.T) {
	t.Parallel()
	for name, details := range map[string][]any{
		"none":             nil,
		"of another shape": {"down"},
		"of another code":  {map[string]string{"code": "out_of_stock"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := execute[status](t, status{}, temporal.NewNonRetryableApplicationError("down", toolcall.DependencyUnavailable, nil, details...))
			assert.Equal(t, toolcall.Result[status]{Error: &toolcall.ToolError{
				Type: "DependencyUnavailable", Tool: tool, Message: "get_delivery_status failed (DependencyUnavailable).",
			}}, result)
		})
	}
}

// A model may repeat what it reads to customers, so it gets the class of the error and
// not its message.
func TestExecute_GivesOnlyTheClassOfAFailure(t *testing.T) {
	t.Parallel()
	cause := errors.New("dial carrier.internal: password hunter2 rejected")
	for name, c := range map[string]struct {
		end           error
		kind, message string
		secret        string
	}{
		"application error": {
			temporal.NewApplicationError("no parcel at carrier.internal", "NotFound", "hunter2"),
			"NotFound", "get_delivery_status failed (NotFound).", "carrier.internal",
		},
		"with a cause": {
			temporal.NewApplicationErrorWithCause("gateway", "BadGateway", cause),
			"BadGateway", "get_delivery_status failed (BadGateway).", "hunter2",
		},
		"non-retryable": {
			temporal.NewNonRetryableApplicationError("bad input", "Validation", cause),
			"Validation", "get_delivery_status failed (Validation).", "hunter2",
		},
		"any other error": {cause, "Error", "get_delivery_status failed.", "hunter2"},
		"wrapped":         {fmt.Errorf("asking: %w", cause), "wrapError", "get_delivery_status failed (wrapError).", "hunter2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := execute[status](t, status{}, c.end)
			assert.Equal(t, toolcall.Result[status]{Error: &toolcall.ToolError{Type: c.kind, Tool: tool, Message: c.message}}, result)
			assert.Equal(t, c.message, result.ForModel())
			assert.NotContains(t, result.ForModel(), c.secret)
		})
	}
}

func TestExecute_HidesThePanicMessageAndStack(t *testing.T) {
	t.Parallel()
	result, err := executeIn[status](t, newEnv(func(context.Context, string) (status, error) { panic("hunter2") }))
	require.NoError(t, err)
	assert.Equal(t, toolcall.Result[status]{Error: &toolcall.ToolError{Type: "Error", Tool: tool, Message: "get_delivery_status failed."}}, result)
}

func TestExecute_NamesATimeout(t *testing.T) {
	t.Parallel()
	env := newEnv(func(ctx context.Context, _ string) (status, error) {
		<-ctx.Done()
		return status{}, ctx.Err()
	})
	var result toolcall.Result[status]
	env.ExecuteWorkflow(func(ctx workflow.Context) (err error) {
		result, err = toolcall.Execute[status](workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: 10 * time.Millisecond,
			RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		}), tool, "PKG-1")
		return err
	})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, toolcall.Result[status]{Error: timedOut()}, result)
}

func TestGet_NamesATimeoutOfAnyKind(t *testing.T) {
	t.Parallel()
	for _, kind := range []enums.TimeoutType{
		enums.TIMEOUT_TYPE_START_TO_CLOSE, enums.TIMEOUT_TYPE_SCHEDULE_TO_START,
		enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, enums.TIMEOUT_TYPE_HEARTBEAT,
	} {
		assert.Equal(t, toolcall.Result[status]{Error: timedOut()}, getError(t, temporal.NewTimeoutError(kind, nil)), kind)
	}
}

// A tool that was retried until its timeout is described by its last failure.
func TestGet_NamesTheLastFailureOfATimeout(t *testing.T) {
	t.Parallel()
	last := temporal.NewApplicationError("hunter2", "BadGateway")
	result := getError(t, temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, last))
	assert.Equal(t, "get_delivery_status failed (BadGateway).", result.ForModel())
}

func timedOut() *toolcall.ToolError {
	return &toolcall.ToolError{Type: "Timeout", Tool: tool, Message: "get_delivery_status did not answer in time."}
}

// getError returns the result of Get for a future that ends in this error.
func getError(t *testing.T, end error) (result toolcall.Result[status]) {
	t.Helper()
	env := newEnv(func(context.Context) error { return nil })
	env.ExecuteWorkflow(func(ctx workflow.Context) (err error) {
		future, settable := workflow.NewFuture(ctx)
		settable.SetError(end)
		result, err = toolcall.Get[status](ctx, tool, future)
		return err
	})
	require.NoError(t, env.GetWorkflowError())
	return result
}

// Cancellation is the only error of Execute.
func TestExecute_OfACancelledRunIsAnError(t *testing.T) {
	t.Parallel()
	env := newEnv(func(context.Context, string) (status, error) { return inTransit, nil })
	env.OnActivity(tool, mock.Anything, mock.Anything).Return(inTransit, nil).After(time.Hour)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	result, err := executeIn[status](t, env)
	require.Error(t, err)
	assert.True(t, temporal.IsCanceledError(err))
	assert.Equal(t, toolcall.Result[status]{}, result)
}

// The run is cancelled while its tool fails, and the failure arrives first.
func TestGet_OfACancelledRunIsAnErrorEvenIfTheToolFailed(t *testing.T) {
	t.Parallel()
	env := newEnv(func(context.Context, string) (status, error) { return status{}, nil })
	env.OnActivity(tool, mock.Anything, mock.Anything).
		Return(status{}, temporal.NewNonRetryableApplicationError("", "NotFound", nil)).After(2 * time.Minute)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	var err error
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		alive, _ := workflow.NewDisconnectedContext(ctx)
		future := workflow.ExecuteActivity(once(alive), tool, "PKG-1")
		_ = workflow.Sleep(alive, 3*time.Minute)
		_, err = toolcall.Get[status](ctx, tool, future)
		return nil
	})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	assert.Error(t, err)
}

// The caller cancelled this one call, so it needs no text for a model.
func TestGet_OfACallThatItsCallerCancelledIsAnError(t *testing.T) {
	t.Parallel()
	env := newEnv(func(context.Context, string) (status, error) { return inTransit, nil })
	env.OnActivity(tool, mock.Anything, mock.Anything).Return(inTransit, nil).After(time.Hour)
	var err error
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		callCtx, cancel := workflow.WithCancel(ctx)
		future := workflow.ExecuteActivity(once(callCtx), tool, "PKG-1")
		cancel()
		_, err = toolcall.Get[status](ctx, tool, future)
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	assert.True(t, temporal.IsCanceledError(err))
}

// A tool fails when other work that it waited for was cancelled. The run that called
// it continues.
func TestExecute_ACancellationInsideTheToolIsAFailure(t *testing.T) {
	t.Parallel()
	result := execute[status](t, status{}, temporal.NewApplicationErrorWithCause("", "LabelJobFailed", temporal.NewCanceledError()))
	assert.Equal(t, toolcall.Result[status]{Error: &toolcall.ToolError{
		Type: "LabelJobFailed", Tool: tool, Message: "get_delivery_status failed (LabelJobFailed).",
	}}, result)
}

// A generic agent does not know the schema of a tool.
func TestExecute_ReturnsRawJSONUnchanged(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"object": `{"state":"lost","parcels":[1,2]}`,
		"list":   `[{"state":"lost"}]`,
		"text":   `"lost"`,
		"number": `17`,
		"null":   `null`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fromRaw := execute[json.RawMessage](t, json.RawMessage(text), nil)
			assert.JSONEq(t, text, string(fromRaw.Value))
			assert.JSONEq(t, text, fromRaw.ForModel())
			var value any
			require.NoError(t, json.Unmarshal([]byte(text), &value))
			if value != nil {
				fromValue := execute[json.RawMessage](t, value, nil)
				assert.JSONEq(t, text, string(fromValue.Value))
			}
		})
	}
	typed := execute[json.RawMessage](t, toolcall.Value(inTransit), nil)
	assert.JSONEq(t, `{"tracking_id":"PKG-1","state":"in_transit"}`, string(typed.Value))
	refused := execute[json.RawMessage](t, toolcall.Result[status]{Unavailable: unavailable()}, nil)
	assert.Equal(t, unavailable(), refused.Unavailable)
}

// Only the member "toolbreaker" makes a Result, not the word.
func TestExecute_DoesNotMistakeOtherValuesForAResult(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{
		"text":                     `toolbreaker`,
		"quoted in a text":         `{"toolbreaker":"unavailable"}`,
		"nested member":            map[string]any{"config": map[string]any{"toolbreaker": "unavailable"}},
		"value of another member":  map[string]any{"guarded_by": "toolbreaker"},
		"in a list":                []any{map[string]any{"toolbreaker": "unavailable"}},
		"member of another type":   map[string]any{"toolbreaker": map[string]any{"version": 1.0}},
		"member that holds a list": map[string]any{"toolbreaker": []any{"value"}},
		"member that is empty":     map[string]any{"toolbreaker": "", "state": "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, toolcall.Value(value), execute[any](t, value, nil))
		})
	}
	bytes := []byte(`{"toolbreaker":"unavailable"}`)
	assert.Equal(t, toolcall.Value(bytes), execute[[]byte](t, bytes, nil), "bytes are not JSON")
}

func TestExecute_ReturnsZeroForNoResult(t *testing.T) {
	t.Parallel()
	assert.Equal(t, toolcall.Result[status]{}, execute[status](t, (*status)(nil), nil))
	assert.Equal(t, toolcall.Result[*status]{}, execute[*status](t, (*status)(nil), nil))
	assert.Equal(t, toolcall.Result[any]{}, execute[any](t, any(nil), nil))

	errorOnly, err := executeIn[status](t, newEnv(func(context.Context, string) error { return nil }))
	require.NoError(t, err)
	assert.Equal(t, toolcall.Result[status]{}, errorOnly)
}

// The model would believe an empty answer.
func TestExecute_OfAnUnreadableResultIsAnError(t *testing.T) {
	t.Parallel()
	unreadable := toolcall.Result[status]{Error: &toolcall.ToolError{
		Type: "UnreadableResult", Tool: tool, Message: "get_delivery_status returned a result that cannot be read.",
	}}
	for name, value := range map[string]any{
		"of another type":        "in transit",
		"typed, of another type": toolcall.Value("in transit"),
		"outcome of a later version": map[string]any{
			"toolbreaker": "parked", "until": "2026-03-01T14:00:00Z",
		},
		"refusal without its part": map[string]any{"toolbreaker": "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, unreadable, execute[status](t, value, nil))
		})
	}
}

// Payloads are often compressed or encrypted between worker and server.
func TestExecute_ReadsThroughACodec(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value any
		want  toolcall.Result[status]
	}{
		"plain":   {inTransit, toolcall.Value(inTransit)},
		"typed":   {toolcall.Value(inTransit), toolcall.Value(inTransit)},
		"refused": {toolcall.Result[json.RawMessage]{Unavailable: unavailable()}, toolcall.Result[status]{Unavailable: unavailable()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(func(context.Context, string) (any, error) { return c.value, nil })
			env.SetDataConverter(converter.NewCodecDataConverter(converter.GetDefaultDataConverter(),
				converter.NewZlibCodec(converter.ZlibCodecOptions{AlwaysEncode: true})))
			result, err := executeIn[status](t, env)
			require.NoError(t, err)
			assert.Equal(t, c.want, result)
		})
	}
}

func TestGet_WaitsForCallsThatRunTogether(t *testing.T) {
	t.Parallel()
	env := newEnv(func(_ context.Context, id string) (status, error) { return status{TrackingID: id}, nil })
	var results []toolcall.Result[status]
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		var futures []workflow.Future
		for _, id := range []string{"PKG-1", "PKG-2"} {
			futures = append(futures, workflow.ExecuteActivity(once(ctx), tool, id))
		}
		for _, f := range futures {
			r, err := toolcall.Get[status](ctx, tool, f)
			if err != nil {
				return err
			}
			results = append(results, r)
		}
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, []toolcall.Result[status]{
		toolcall.Value(status{TrackingID: "PKG-1"}), toolcall.Value(status{TrackingID: "PKG-2"}),
	}, results)
}

// Temporal's retries come first. The result is that of the last attempt.
func TestExecute_ReturnsTheAnswerAfterRetries(t *testing.T) {
	t.Parallel()
	env := newEnv(func(ctx context.Context, _ string) (status, error) {
		if activity.GetInfo(ctx).Attempt < 3 {
			return status{}, errors.New("not yet")
		}
		return inTransit, nil
	})
	var result toolcall.Result[status]
	env.ExecuteWorkflow(func(ctx workflow.Context) (err error) {
		result, err = toolcall.Execute[status](workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Minute,
		}), tool, "PKG-1")
		return err
	})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, toolcall.Value(inTransit), result)
}

// A refused call does not cancel the others.
func TestExecuteAll_GivesEachCallItsOwnResult(t *testing.T) {
	t.Parallel()
	var others sync.WaitGroup
	others.Add(3)
	env := newAgentEnv(func(ctx context.Context, q query) (status, error) {
		switch q.ID {
		case "refused": // in two calls
			defer others.Done()
			return refuse(shared())(ctx, q)
		case "slow":
			others.Wait()
		case "failed":
			defer others.Done()
			return status{}, notFound
		}
		return status{TrackingID: q.ID}, nil
	})
	var calls []toolcall.Call[status]
	for _, id := range []string{"slow", "refused", "failed", "quick"} {
		calls = append(calls, toolcall.Call[status]{Tool: tool, Args: []any{query{ID: id}}})
	}
	calls = append(calls, toolcall.Call[status]{}, toolcall.Call[status]{
		Tool: tool, Args: []any{query{ID: "refused"}}, Fallback: toolcall.Cached(delivered, now),
	})
	var results []toolcall.Result[status]
	env.ExecuteWorkflow(func(ctx workflow.Context) (err error) {
		results, err = toolcall.ExecuteAll(once(ctx), calls...)
		return err
	})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, results, len(calls))
	assert.Equal(t, toolcall.Value(status{TrackingID: "slow"}), results[0])
	assert.Equal(t, shared(), results[1].Unavailable)
	assert.Equal(t, "get_delivery_status failed (NotFound).", results[2].ForModel())
	assert.Equal(t, toolcall.Value(status{TrackingID: "quick"}), results[3])
	assert.Equal(t, "No tool was called: the call names none.", results[4].ForModel())
	assert.Equal(t, toolcall.Degraded, results[5].Outcome())
}

func TestExecuteAll_OfNoCallsGivesNoResults(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(answer)
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		results, err := toolcall.ExecuteAll[status](ctx)
		assert.NoError(t, err)
		assert.Empty(t, results)
	})
}

func TestExecuteAll_GivesEachCallItsOwnOptions(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(answer)
	scheduled := scheduledWith(env)
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		_, err := toolcall.ExecuteAll(ctx,
			toolcall.Call[status]{Tool: tool, Args: []any{query{}}, Options: &workflow.ActivityOptions{StartToCloseTimeout: time.Hour, TaskQueue: "us-east"}},
			toolcall.Call[status]{Tool: tool, Args: []any{query{}}},
		)
		assert.NoError(t, err)
	})
	require.Len(t, *scheduled, 2)
	assert.Equal(t, time.Hour, (*scheduled)[0].StartToCloseTimeout)
	assert.Equal(t, "us-east", (*scheduled)[0].TaskQueue)
	assert.Equal(t, 5*time.Second, (*scheduled)[1].StartToCloseTimeout)
	assert.NotEqual(t, "us-east", (*scheduled)[1].TaskQueue)
}

// The joined error still ends the run as cancelled, not as failed.
func TestExecuteAll_OfACancelledRunIsCancelled(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(answer)
	env.OnActivity(tool, mock.Anything, mock.Anything).Return(inTransit, nil).After(time.Hour)
	env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		c := toolcall.Call[status]{Tool: tool, Args: []any{query{}}}
		_, err := toolcall.ExecuteAll(once(ctx), c, c)
		return err
	})
	assert.True(t, temporal.IsCanceledError(env.GetWorkflowError()))
}

// Arguments come from a model. If they are too large the server fails the whole run,
// and if they are not JSON each attempt of the activity fails.
func TestExecute_RejectsInvalidArguments(t *testing.T) {
	t.Parallel()
	const notJSON = "get_delivery_status was not called: its arguments are not valid JSON. Call it again with a JSON object."
	const tooLarge = "get_delivery_status was not called: its arguments are larger than 1048576 bytes."
	text := func(size int, of string) json.RawMessage {
		return json.RawMessage(`"` + strings.Repeat(of, size) + `"`)
	}
	for name, c := range map[string]struct {
		args []any
		want string
	}{
		"cut off":             {[]any{json.RawMessage(`{"id":"PKG-`)}, notJSON},
		"prose":               {[]any{json.RawMessage(`the parcel PKG-1`)}, notJSON},
		"two objects":         {[]any{json.RawMessage(`{}{}`)}, notJSON},
		"nothing":             {[]any{json.RawMessage(nil)}, notJSON},
		"empty":               {[]any{json.RawMessage{}}, notJSON},
		"white space":         {[]any{json.RawMessage(" \n")}, notJSON},
		"the second one":      {[]any{json.RawMessage(`{}`), json.RawMessage(`{`)}, notJSON},
		"larger than a MiB":   {[]any{text(1<<20, "x")}, tooLarge},
		"larger together":     {[]any{text(1<<19, "x"), text(1<<19, "x")}, tooLarge},
		"larger when encoded": {[]any{text(1<<18, "<")}, tooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newAgentEnv(answer)
			env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
				assert.Equal(t, toolcall.Result[status]{Error: &toolcall.ToolError{
					Type: toolcall.TypeInvalidArguments, Tool: tool, Message: c.want,
				}}, call(ctx, tool, c.args...))
			})
			assert.Empty(t, env.started)
		})
	}
}

func TestExecute_SendsArgumentsUpToAMiB(t *testing.T) {
	t.Parallel()
	env := newEnv(func(_ context.Context, text string) (int, error) { return len(text), nil })
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		r, err := toolcall.Execute[int](once(ctx), tool, json.RawMessage(`"`+strings.Repeat("x", 1<<20-2)+`"`))
		assert.Equal(t, toolcall.Value(1<<20-2), r)
		return err
	})
	require.NoError(t, env.GetWorkflowError())
}
