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

// rateLimited reports whether the dependency asked for fewer calls.
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

// retryAfter returns the wait that the dependency asked for by an error with a method
// RetryAfterHint, 0 for other errors. A 503 can have one too.
func retryAfter(err error) time.Duration {
	var asked interface{ RetryAfterHint() time.Duration }
	if errors.As(err, &asked) {
		return asked.RetryAfterHint()
	}
	return 0
}

// asRateLimit converts a plain error of a rate limit into an application error that a
// workflow can tell from an outage. An application error is not changed, because a workflow
// may depend on its type.
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
