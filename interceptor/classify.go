package interceptor

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// Classify says what an activity's end means for the dependency it called.
//
//   - Success: it answered, be it with a "no" (4xx, a non-retryable error).
//   - Failure: it did not do its work (5xx, timeouts, connections, unknown errors).
//   - Ignored: the call says nothing about it. The caller cancelled, the worker
//     shut down, the activity was paused or reset, or the dependency only asked
//     for a slower pace (429).
//
// Whose a cancellation is, is told by the activity's own context and its cause,
// never by the error's text.
func Classify(ctx context.Context, err error) breaker.Outcome {
	if errors.Is(err, activity.ErrResultPending) {
		return breaker.Ignored
	}
	if ctx.Err() != nil {
		// The attempt's own deadline has passed: whatever it returns now, the
		// server takes it as timed out.
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return breaker.Failure
		}
		return breaker.Ignored
	}
	if err == nil {
		return breaker.Success
	}
	if rateLimited(err) {
		return breaker.Ignored
	}
	var status interface{ HTTPStatus() int }
	if errors.As(err, &status) {
		return classifyHTTP(status.HTTPStatus())
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.NonRetryable() {
		return breaker.Success
	}
	return breaker.Failure
}

func classifyHTTP(status int) breaker.Outcome {
	switch {
	case status == http.StatusRequestTimeout || status >= 500:
		return breaker.Failure
	default:
		return breaker.Success
	}
}

// rateLimited tells whether the dependency only asked for a slower pace.
func rateLimited(err error) bool {
	var status interface{ HTTPStatus() int }
	if errors.As(err, &status) {
		return status.HTTPStatus() == http.StatusTooManyRequests
	}
	var exhausted *serviceerror.ResourceExhausted
	return errors.As(err, &exhausted)
}

// retryAfter is how long the dependency asked to be left alone, by an error that
// has a method RetryAfterHint; 0 for any other.
func retryAfter(err error) time.Duration {
	var asked interface{ RetryAfterHint() time.Duration }
	if rateLimited(err) && errors.As(err, &asked) {
		return asked.RetryAfterHint()
	}
	return 0
}
