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

// maxRetryAfter limits the wait that a server can ask for.
const maxRetryAfter = time.Hour

// HTTP is an HTTP response other than 2xx, as an error. It may be used concurrently.
type HTTP struct {
	Status     int           // HTTP status code
	RetryAfter time.Duration // from the Retry-After header, at most one hour; 0: none
}

// FromResponse returns nil for a 2xx response. For any other it returns an application
// error whose type is the name of the status without spaces, such as NotFound or
// ServiceUnavailable. It neither reads nor closes the body.
func FromResponse(resp *http.Response) error {
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return nil
	}
	h := Of(resp)
	return h.Application(h.Error())
}

// Of returns the status and the Retry-After of a response.
func Of(resp *http.Response) *HTTP {
	return &HTTP{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
}

// Error returns the status with its standard text, and the wait if there is one.
func (e *HTTP) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.Status, http.StatusText(e.Status)))
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", retry after %v", e.RetryAfter)
	}
	return text
}

// HTTPStatus returns the status code. Classifiers use it without knowing the type.
func (e *HTTP) HTTPStatus() int { return e.Status }

// RetryAfterHint returns the wait that the server asked for, 0 if none.
func (e *HTTP) RetryAfterHint() time.Duration { return e.RetryAfter }

// Application returns an application error with this message and the cause e, to be
// returned from an activity. Its type is the name of the status without spaces.
func (e *HTTP) Application(message string) error {
	return temporal.NewApplicationErrorWithOptions(message, e.name(), temporal.ApplicationErrorOptions{
		NonRetryable:   e.final(),
		Cause:          e,
		NextRetryDelay: NextRetryDelay(e.RetryAfter),
	})
}

// final reports whether the same call would get the same answer again: the dependency
// works and rejected it.
func (e *HTTP) final() bool {
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

// retryAfter parses both forms of the header, seconds and a date. Any other value, and
// a time in the past, is 0.
func retryAfter(header string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 64); err == nil {
		wait = time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// NextRetryDelay adds a random part of up to a quarter to the wait that a server asked
// for. Temporal adds no jitter to a next-retry delay, so without it all callers would
// return at once. For 0 or less it returns 0: the retry policy sets the delay.
func NextRetryDelay(wait time.Duration) time.Duration {
	if wait <= 0 {
		return 0
	}
	return wait + rand.N(wait/4+1)
}
