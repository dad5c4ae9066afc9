package interceptor

import (
	"errors"
	"net/http"
	"time"

	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc/codes"

	"github.com/toolbreaker/toolbreaker/toolcall"
	"github.com/toolbreaker/toolbreaker/toolerror"
)

// rateLimited tells whether the dependency only asked for a slower pace.
func rateLimited(err error) bool {
	if code, ok := httpStatus(err); ok {
		return code == http.StatusTooManyRequests
	}
	if code, ok := grpcCode(err); ok {
		return code == codes.ResourceExhausted
	}
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == toolcall.DependencyRateLimited
}

// retryAfter is how long the dependency asked to be left alone, by an error that
// has a method RetryAfterHint; 0 for any other. A 503 may ask as well as a 429.
func retryAfter(err error) time.Duration {
	var asked interface{ RetryAfterHint() time.Duration }
	if errors.As(err, &asked) {
		return asked.RetryAfterHint()
	}
	return 0
}

// asRateLimit makes a plain error by which the dependency asked for a slower pace
// one that a workflow can tell from an outage. An application error has a type of
// its own that a workflow may know, and stays what it is.
func asRateLimit(tool string, err error, now time.Time) error {
	var app *temporal.ApplicationError
	if !rateLimited(err) || errors.As(err, &app) {
		return err
	}
	after := retryAfter(err)
	limit := toolcall.NewRateLimit(tool, after, now)
	return temporal.NewApplicationErrorWithOptions(limit.Message, toolcall.DependencyRateLimited, temporal.ApplicationErrorOptions{
		Cause: err, Details: []any{limit}, NextRetryDelay: toolerror.NextRetryDelay(after),
	})
}
