// Package toolerror is how a tool tells what its dependency said, in one line:
//
//	if err := toolerror.FromResponse(resp); err != nil {
//		return Status{}, err
//	}
//
// The error is one that Temporal retries when it makes sense, after what
// Retry-After asked for, and that the breaker understands: 5xx and 408 are
// failures, other 4xx a healthy dependency's "no", 429 says nothing. It holds no
// word that the server wrote: errors end up in a workflow's history and in a
// model's transcript.
//
// Any other error may be returned as it is: timeouts, DNS, refused and broken
// connections, TLS and gRPC codes are told apart by package interceptor. So are
// errors of a tool's own making that have a method HTTPStatus() int, and
// RetryAfterHint() time.Duration.
package toolerror

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
)

// maxRetryAfter bounds what a server can ask for.
const maxRetryAfter = time.Hour

// HTTP is an answer other than 2xx.
type HTTP struct {
	Status     int           // HTTP status code
	RetryAfter time.Duration // what Retry-After asked for, at most an hour; zero: nothing
}

// FromResponse gives nil for a 2xx, and else an application error whose type is
// the status's name without spaces, such as NotFound or ServiceUnavailable. It
// leaves the body alone.
func FromResponse(resp *http.Response) error {
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return nil
	}
	h := Of(resp)
	return h.Application(h.Error())
}

// Of reads status and Retry-After of a response.
func Of(resp *http.Response) *HTTP {
	return &HTTP{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
}

// Error gives the status and its standard text.
func (e *HTTP) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.Status, http.StatusText(e.Status)))
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", retry after %v", e.RetryAfter)
	}
	return text
}

// HTTPStatus is the status code, for classifiers that do not know this type.
func (e *HTTP) HTTPStatus() int { return e.Status }

// RetryAfterHint is how long the server asked to be left alone; zero: it did not.
func (e *HTTP) RetryAfterHint() time.Duration { return e.RetryAfter }

// Application is the error to return from an activity, caused by e, with a
// message of the tool's own. Its type is the status's name.
func (e *HTTP) Application(message string) error {
	return temporal.NewApplicationErrorWithOptions(message, e.name(), temporal.ApplicationErrorOptions{
		NonRetryable:   e.refusal(),
		Cause:          e,
		NextRetryDelay: NextRetryDelay(e.RetryAfter),
	})
}

// refusal reports whether the dependency works and said no, so that the same
// call would get the same answer.
func (e *HTTP) refusal() bool {
	return e.Status >= 400 && e.Status <= 499 &&
		e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

func (e *HTTP) name() string {
	text := http.StatusText(e.Status)
	if text == "" {
		return "HTTP" + strconv.Itoa(e.Status)
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

// NextRetryDelay spreads what a server asked for over up to a quarter more:
// Temporal adds no jitter to a next-retry delay, and everyone told so in one second
// would return in one. 0 stays 0, and leaves the delay to the retry policy.
func NextRetryDelay(wait time.Duration) time.Duration {
	if wait <= 0 {
		return 0
	}
	return wait + rand.N(wait/4+1)
}
