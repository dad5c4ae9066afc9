package httptool

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/toolerror"
)

// The types of the application errors that are no HTTP status. An HTTP status
// gives its standard text without spaces: NotFound, ServiceUnavailable.
const (
	TypeTimeout          = "Timeout"          // no answer in time; wraps context.DeadlineExceeded
	TypeConnectionFailed = "ConnectionFailed" // no connection, or it broke
	TypeBadAnswer        = "BadAnswer"        // a 2xx whose body is not what was asked for
	TypeBadRequest       = "BadToolRequest"   // the request could not be built: configuration
	TypeInvalidQuery     = "InvalidQuery"     // arguments refused before any call; not retryable
)

// statusError maps an answer other than 2xx.
func (a API) statusError(req Request, resp *http.Response) error {
	return toolerror.Of(resp).Application(a.message(req, "was not served"))
}

// transportError maps a call that got no whole answer. ctx is the caller's, not
// the one that carries the call's own timeout.
func (a API) transportError(ctx context.Context, req Request, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	// The outer error repeats the URL, and with it the query.
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	if ctx.Err() == nil && !timedOut(err) {
		return temporal.NewApplicationErrorWithCause(a.message(req, "had no answer"), TypeConnectionFailed, err)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		err = context.DeadlineExceeded
	}
	return temporal.NewApplicationErrorWithCause(a.message(req, "had no answer in time"), TypeTimeout, err)
}

func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

func (a API) badAnswer(req Request, reason string) error {
	return temporal.NewApplicationError(a.message(req, "had an answer that is "+reason), TypeBadAnswer)
}

func (a API) badRequest(req Request, reason string) error {
	return temporal.NewApplicationError(a.message(req, "was not sent: "+reason), TypeBadRequest)
}

func (a API) message(req Request, what string) string {
	return fmt.Sprintf("%s of %s %s", req.Tool, a.Dependency, what)
}
