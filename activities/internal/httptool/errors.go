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

// Types of the application errors without an HTTP status. With one, the type is the
// name of the status without spaces, such as NotFound.
const (
	TypeTimeout          = "Timeout"          // no answer in time; wraps context.DeadlineExceeded
	TypeConnectionFailed = "ConnectionFailed" // no connection, or a broken one
	TypeBadAnswer        = "BadAnswer"        // a 2xx with an unexpected body
	TypeBadRequest       = "BadToolRequest"   // the request could not be built, because of its configuration
	TypeInvalidQuery     = "InvalidQuery"     // malformed arguments; nothing was sent; not retryable
)

// statusError is the error of a response other than 2xx.
func (a API) statusError(req Request, resp *http.Response) error {
	return toolerror.Of(resp).Application(a.message(req, "got an HTTP error"))
}

// transportError is the error of a call without a complete answer. ctx is the caller's
// context, without the call's own timeout.
func (a API) transportError(ctx context.Context, req Request, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	// The outer error quotes the URL, which contains the query.
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	if ctx.Err() == nil && !timedOut(err) {
		return temporal.NewApplicationErrorWithCause(a.message(req, "got no answer"), TypeConnectionFailed, err)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		err = context.DeadlineExceeded
	}
	return temporal.NewApplicationErrorWithCause(a.message(req, "got no answer in time"), TypeTimeout, err)
}

func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}

func (a API) badAnswer(req Request, reason string) error {
	return temporal.NewApplicationError(a.message(req, "got an answer that is "+reason), TypeBadAnswer)
}

func (a API) badRequest(req Request, reason string) error {
	return temporal.NewApplicationError(a.message(req, "was not sent: "+reason), TypeBadRequest)
}

func (a API) message(req Request, what string) string {
	return fmt.Sprintf("%s of %s %s", req.Tool, a.Dependency, what)
}
