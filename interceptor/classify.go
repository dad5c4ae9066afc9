package interceptor

import (
	"context"
	"errors"
	"net/http"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// Classify decides how the end of an activity counts for the dependency it called.
//
//   - Success: the dependency answered, possibly with a business error: 4xx, a gRPC code
//     such as NotFound, a non-retryable error.
//   - Failure: the dependency did not do its work: 5xx, timeouts, DNS, connections, TLS,
//     unknown errors.
//   - Ignored: the call shows nothing about the dependency. The caller cancelled, the
//     worker shut down, the activity was paused or reset, the dependency asked for fewer
//     calls (429, ResourceExhausted), or another dependency refused the tool.
//
// The kind of a cancellation is taken from the activity's context and its cause, never
// from the text of the error.
func Classify(ctx context.Context, result any, err error) breaker.Outcome {
	if errors.Is(err, activity.ErrResultPending) {
		return breaker.Ignored
	}
	if ctx.Err() != nil {
		// The server has timed the attempt out, so its result does not count.
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return breaker.Failure
		}
		return breaker.Ignored
	}
	if err == nil {
		return classifyResult(result)
	}
	if rateLimited(err) {
		return breaker.Ignored
	}
	if code, ok := httpStatus(err); ok {
		return classifyHTTP(code)
	}
	if code, ok := grpcCode(err); ok {
		return classifyGRPC(code)
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		switch {
		case app.Type() == toolcall.DependencyUnavailable:
			return breaker.Ignored
		case app.NonRetryable():
			return breaker.Success
		}
	}
	return breaker.Failure
}

// classifyResult is for a tool whose result contains its outcome.
func classifyResult(result any) breaker.Outcome {
	r, ok := result.(interface{ Outcome() toolcall.Outcome })
	if !ok {
		return breaker.Success
	}
	switch r.Outcome() {
	case toolcall.Refused, toolcall.RateLimited:
		return breaker.Ignored
	case toolcall.Failed:
		return breaker.Failure
	}
	return breaker.Success
}

func httpStatus(err error) (int, bool) {
	var s interface{ HTTPStatus() int }
	if errors.As(err, &s) {
		return s.HTTPStatus(), true
	}
	return 0, false
}

func classifyHTTP(status int) breaker.Outcome {
	switch {
	case status == http.StatusRequestTimeout || status >= 500:
		return breaker.Failure
	default:
		return breaker.Success
	}
}

// grpcCode returns the code of a gRPC error, or of an error of Temporal's services.
func grpcCode(err error) (codes.Code, bool) {
	var service interface{ Status() *status.Status }
	if errors.As(err, &service) {
		return service.Status().Code(), true
	}
	var s interface{ GRPCStatus() *status.Status }
	if errors.As(err, &s) {
		return s.GRPCStatus().Code(), true
	}
	return codes.OK, false
}

func classifyGRPC(code codes.Code) breaker.Outcome {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.Aborted:
		return breaker.Success
	default:
		return breaker.Failure
	}
}

// Classifier decides how an outcome counts, or returns false to leave the decision to
// others. It may be called concurrently.
type Classifier func(result any, err error) (breaker.Outcome, bool)

// ByErrorType classifies application errors by their type.
func ByErrorType(outcomes map[string]breaker.Outcome) Classifier {
	return func(_ any, err error) (breaker.Outcome, bool) {
		var app *temporal.ApplicationError
		if !errors.As(err, &app) {
			return 0, false
		}
		outcome, ok := outcomes[app.Type()]
		return outcome, ok
	}
}

// ByResult classifies results of type T without an error, for example those that contain
// an HTTP status.
func ByResult[T any](classify func(T) (breaker.Outcome, bool)) Classifier {
	return func(result any, err error) (breaker.Outcome, bool) {
		if t, ok := result.(T); ok && err == nil {
			return classify(t)
		}
		return 0, false
	}
}

// FirstOf calls the classifiers in order and returns the first decision.
func FirstOf(classifiers ...Classifier) Classifier {
	return func(result any, err error) (breaker.Outcome, bool) {
		for _, c := range classifiers {
			if outcome, ok := c(result, err); ok {
				return outcome, true
			}
		}
		return 0, false
	}
}
