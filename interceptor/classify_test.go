package interceptor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
)

// httpError is a tool's error that knows the dependency's status.
type httpError int

func (e httpError) Error() string   { return fmt.Sprintf("status %d", int(e)) }
func (e httpError) HTTPStatus() int { return int(e) }

func TestClassify_ByTheDependencysAnswer(t *testing.T) {
	t.Parallel()
	const success, failure, ignored = breaker.Success, breaker.Failure, breaker.Ignored
	for status, want := range map[int]breaker.Outcome{
		// It answered, be it with a "no".
		200: success, 304: success, 400: success, 401: success, 403: success, 404: success, 409: success, 410: success, 422: success, 499: success,
		// It asks for a slower pace.
		429: ignored,
		// It did not do its work.
		408: failure, 500: failure, 501: failure, 502: failure, 503: failure, 504: failure, 529: failure, 599: failure,
	} {
		err := httpError(status)
		for name, err := range map[string]error{
			"bare":                      err,
			"wrapped":                   fmt.Errorf("asking the carrier: %w", err),
			"joined":                    errors.Join(errors.New("closing the body"), err),
			"cause of a retryable":      temporal.NewApplicationErrorWithCause("", "Carrier", err),
			"cause of a non-retryable":  temporal.NewNonRetryableApplicationError("", "Carrier", err),
			"beside its own deadline":   errors.Join(err, context.DeadlineExceeded),
			"cause of an activity fail": temporal.NewApplicationErrorWithOptions("", "Carrier", temporal.ApplicationErrorOptions{Cause: fmt.Errorf("x: %w", err)}),
		} {
			assert.Equal(t, want, interceptor.Classify(t.Context(), nil, err), "%d %s", status, name)
		}
	}
}

func TestClassify_ByTheError(t *testing.T) {
	t.Parallel()
	exhausted := serviceerror.NewResourceExhausted(enums.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "slow down")
	for name, c := range map[string]struct {
		err  error
		want breaker.Outcome
	}{
		"none":                         {nil, breaker.Success},
		"unknown":                      {errors.New("?"), breaker.Failure},
		"asked for a slower pace":      {exhausted, breaker.Ignored},
		"slower pace, wrapped":         {fmt.Errorf("asking: %w", exhausted), breaker.Ignored},
		"ends elsewhere":               {activity.ErrResultPending, breaker.Ignored},
		"ends elsewhere, wrapped":      {fmt.Errorf("later: %w", activity.ErrResultPending), breaker.Ignored},
		"a retryable no":               {temporal.NewApplicationError("", "Busy"), breaker.Failure},
		"a final no":                   {temporal.NewNonRetryableApplicationError("", "UnknownParcel", nil), breaker.Success},
		"a final no, wrapped":          {fmt.Errorf("asking: %w", temporal.NewNonRetryableApplicationError("", "UnknownParcel", nil)), breaker.Success},
		"unreachable":                  {serviceerror.NewUnavailable("connection refused"), breaker.Failure},
		"the tool's own deadline":      {context.DeadlineExceeded, breaker.Failure},
		"the same, told by its client": {fmt.Errorf("Get: %w", context.DeadlineExceeded), breaker.Failure},
		// Nobody cancelled this activity: whatever the text says, the tool gave up.
		"cancelled by the tool itself": {context.Canceled, breaker.Failure},
		"a cancelled error of its own": {temporal.NewCanceledError(), breaker.Failure},
	} {
		assert.Equal(t, c.want, interceptor.Classify(t.Context(), nil, c.err), name)
	}
}

// Whose a cancellation is, is told by the activity's own context and its cause.
func TestClassify_ByTheActivitysContext(t *testing.T) {
	t.Parallel()
	cancelled := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		return ctx
	}
	expired, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	outlived, cancelOutlived := context.WithDeadline(cancelled(worker.ErrWorkerShutdown), time.Now().Add(-time.Second))
	defer cancelOutlived()
	for name, c := range map[string]struct {
		ctx  context.Context
		want breaker.Outcome
	}{
		"the workflow cancelled":         {cancelled(temporal.NewCanceledError()), breaker.Ignored},
		"an operator paused it":          {cancelled(activity.ErrActivityPaused), breaker.Ignored},
		"an operator reset it":           {cancelled(activity.ErrActivityReset), breaker.Ignored},
		"the worker shut down":           {cancelled(worker.ErrWorkerShutdown), breaker.Ignored},
		"the run is gone":                {cancelled(serviceerror.NewNotFound("workflow execution already completed")), breaker.Ignored},
		"heartbeats got nowhere":         {cancelled(serviceerror.NewDeadlineExceeded("")), breaker.Ignored},
		"for no reason given":            {cancelled(nil), breaker.Ignored},
		"the attempt's time was up":      {expired, breaker.Failure},
		"shut down before its time, too": {outlived, breaker.Ignored},
	} {
		for _, err := range []error{
			nil, c.ctx.Err(), errors.New("?"), httpError(503), httpError(404), httpError(429), temporal.NewCanceledError(),
			temporal.NewNonRetryableApplicationError("", "UnknownParcel", nil),
		} {
			assert.Equal(t, c.want, interceptor.Classify(c.ctx, nil, err), "%s, returning %v", name, err)
		}
		assert.Equal(t, breaker.Ignored, interceptor.Classify(c.ctx, nil, activity.ErrResultPending), name)
	}
}
