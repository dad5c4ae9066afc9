package toolerror_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/toolerror"
)

func TestFromResponse_IsNoErrorFor2xx(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 204, 299} {
		assert.NoError(t, toolerror.FromResponse(&http.Response{StatusCode: status}), status)
	}
}

func TestFromResponse_IsRetriedWhenItCanHelp(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct {
		kind  string
		final bool
	}{
		304: {"NotModified", false},
		400: {"BadRequest", true},
		404: {"NotFound", true},
		408: {"RequestTimeout", false},
		429: {"TooManyRequests", false},
		499: {"HTTP499", true},
		503: {"ServiceUnavailable", false},
		599: {"HTTP599", false},
	} {
		err := toolerror.FromResponse(&http.Response{StatusCode: status})
		// Not wrapped, because Temporal looks at the outermost error only.
		require.IsType(t, (*temporal.ApplicationError)(nil), err)
		app := err.(*temporal.ApplicationError)
		assert.Equal(t, want.kind, app.Type())
		assert.Equal(t, want.final, app.NonRetryable(), status)
		assert.Zero(t, app.NextRetryDelay(), "the retry policy decides")
		var cause interface{ HTTPStatus() int }
		require.ErrorAs(t, err, &cause)
		assert.Equal(t, status, cause.HTTPStatus())
	}
}

func TestFromResponse_WaitsForRetryAfter(t *testing.T) {
	t.Parallel()
	in20 := time.Now().Add(20 * time.Minute).UTC().Format(http.TimeFormat)
	ago := time.Now().Add(-20 * time.Minute).UTC().Format(http.TimeFormat)
	for header, want := range map[string][2]time.Duration{
		"": {}, "0": {}, "-5": {}, "soon": {}, ago: {},
		"7":                    {7 * time.Second, 7 * time.Second},
		"86400":                {time.Hour, time.Hour},
		"18446744073709551615": {time.Hour, time.Hour},
		in20:                   {15 * time.Minute, 20 * time.Minute},
	} {
		err := toolerror.FromResponse(&http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {header}}})
		var hint interface{ RetryAfterHint() time.Duration }
		require.ErrorAs(t, err, &hint)
		wait := hint.RetryAfterHint()
		assert.GreaterOrEqual(t, wait, want[0], header)
		assert.LessOrEqual(t, wait, want[1], header)
		delay := err.(*temporal.ApplicationError).NextRetryDelay()
		assert.GreaterOrEqual(t, delay, wait, "never earlier than Retry-After")
		assert.LessOrEqual(t, delay, wait+wait/4)
	}
}

func TestHTTP_Error(t *testing.T) {
	t.Parallel()
	assert.EqualError(t, &toolerror.HTTP{Status: 404}, "HTTP 404 Not Found")
	assert.EqualError(t, &toolerror.HTTP{Status: 599}, "HTTP 599")
	assert.EqualError(t, &toolerror.HTTP{Status: 429, RetryAfter: 5 * time.Second},
		"HTTP 429 Too Many Requests, retry after 5s")
}
