package httptool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
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

// maxRetryAfter bounds what a server can ask for.
const maxRetryAfter = time.Hour

// HTTPError is an answer other than 2xx. Its text holds nothing the server
// wrote: errors end up in a workflow's history and in a model's transcript.
type HTTPError struct {
	Status     int           // HTTP status code
	RetryAfter time.Duration // what Retry-After asked for, at most an hour; zero: nothing
}

// Error gives the status and its standard text.
func (e *HTTPError) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.Status, http.StatusText(e.Status)))
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", retry after %v", e.RetryAfter)
	}
	return text
}

// HTTPStatus is the status code, for classifiers that do not know this type.
func (e *HTTPError) HTTPStatus() int { return e.Status }

// RetryAfterHint is how long the server asked to be left alone; zero: it did not.
func (e *HTTPError) RetryAfterHint() time.Duration { return e.RetryAfter }

// refusal reports whether the dependency works and said no, so that the same
// call would get the same answer.
func (e *HTTPError) refusal() bool {
	return e.Status >= 400 && e.Status <= 499 &&
		e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

// statusError maps an answer other than 2xx.
func (a API) statusError(req Request, resp *http.Response) error {
	cause := &HTTPError{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	return temporal.NewApplicationErrorWithOptions(a.message(req, "was not served"), statusType(resp.StatusCode),
		temporal.ApplicationErrorOptions{
			NonRetryable:   cause.refusal(),
			Cause:          cause,
			NextRetryDelay: jittered(cause.RetryAfter),
		})
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

// statusType is the application error type of an HTTP status.
func statusType(status int) string {
	text := http.StatusText(status)
	if text == "" {
		return "HTTP" + strconv.Itoa(status)
	}
	return strings.ReplaceAll(text, " ", "")
}

// retryAfter reads both forms of the header: seconds, and a date. What is
// neither, or in the past, asks for nothing.
func retryAfter(header string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 64); err == nil {
		wait = time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// jittered spreads a wait over up to a quarter more. Temporal adds no jitter to
// a next-retry delay, and everyone refused in one second would return in one.
func jittered(wait time.Duration) time.Duration {
	if wait == 0 {
		return 0
	}
	return wait + rand.N(wait/4+1)
}
