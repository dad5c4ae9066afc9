package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
)

// The types of the errors of a model. An answer that the API refused has its
// status's name for a type: Unauthorized, TooManyRequests, ServiceUnavailable.
const (
	typeTooManyRequests = "TooManyRequests"
	typeTimeout         = "Timeout"
	typeNoConnection    = "ConnectionFailed"
	typeBadAnswer       = "BadAnswer"
)

// statusError is an answer other than 2xx. Its methods are what the breaker
// classifies by. It holds nothing that the API wrote, which may repeat the prompt
// or the key: an error ends up in the workflow's history.
type statusError struct {
	status     int
	retryAfter time.Duration
}

func (e *statusError) Error() string                 { return fmt.Sprintf("HTTP %d", e.status) }
func (e *statusError) HTTPStatus() int               { return e.status }
func (e *statusError) RetryAfterHint() time.Duration { return e.retryAfter }

// final tells whether the same request would get the same "no" again.
func (e *statusError) final() bool {
	return e.status < 500 && e.status != http.StatusRequestTimeout && e.status != http.StatusTooManyRequests
}

// failed is the error of a call that the SDK found no completion in.
func (m OpenAI) failed(ctx context.Context, response *http.Response, err error) error {
	var net interface{ Timeout() bool }
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case ctx.Err() != nil, errors.As(err, &net) && net.Timeout():
		return temporal.NewApplicationErrorWithCause(m.model+" did not answer in time", typeTimeout, context.DeadlineExceeded)
	case response == nil:
		return temporal.NewApplicationError(m.model+" could not be reached", typeNoConnection)
	case response.StatusCode < 400:
		return m.unusable("it cannot be read")
	}
	cause := &statusError{status: response.StatusCode, retryAfter: retryAfter(response.Header, time.Now())}
	return temporal.NewApplicationErrorWithOptions(m.model+" did not answer", statusType(cause.status), temporal.ApplicationErrorOptions{
		NonRetryable: cause.final(), Cause: cause, NextRetryDelay: jittered(cause.retryAfter),
	})
}

// unusable is the error of an answer that is no turn. It can be retried: a model
// seldom says the same twice.
func (m OpenAI) unusable(why string) error {
	return temporal.NewApplicationError(fmt.Sprintf("the answer of %s is unusable: %s", m.model, why), typeBadAnswer)
}

func statusType(status int) string {
	if name := http.StatusText(status); name != "" {
		return strings.ReplaceAll(name, " ", "")
	}
	return "HTTP" + strconv.Itoa(status)
}

// maxRetryAfter bounds what an API can ask for.
const maxRetryAfter = time.Hour

// retryAfter reads what an API asked for: OpenAI's own header in milliseconds, or
// the standard one in seconds or as a date. Anything else asks for nothing.
func retryAfter(h http.Header, now time.Time) time.Duration {
	wait := 0.0
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil {
		wait = ms / 1000
	} else if seconds, err := strconv.ParseFloat(h.Get("Retry-After"), 64); err == nil {
		wait = seconds
	} else if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		wait = at.Sub(now).Seconds()
	}
	if !(wait > 0) || math.IsInf(wait, 1) {
		return 0
	}
	return time.Duration(min(wait, maxRetryAfter.Seconds()) * float64(time.Second))
}

// jittered spreads a wait: everyone refused in one second would return in one.
func jittered(wait time.Duration) time.Duration {
	if wait == 0 {
		return 0
	}
	return wait + rand.N(wait/4+1)
}
