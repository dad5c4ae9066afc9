package httptool_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/activities/internal/httptool"
)

// applicationError requires err to be an application error that is not wrapped, because
// Temporal looks at the outermost error only.
func applicationError(t *testing.T, err error) *temporal.ApplicationError {
	t.Helper()
	require.IsType(t, (*temporal.ApplicationError)(nil), err)
	return err.(*temporal.ApplicationError)
}

func TestStatus_DecidesTypeAndRetry(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		typ    string
		final  bool
	}{
		{304, "NotModified", false},
		{400, "BadRequest", true},
		{401, "Unauthorized", true},
		{403, "Forbidden", true},
		{404, "NotFound", true},
		{408, "RequestTimeout", false},
		{409, "Conflict", true},
		{422, "UnprocessableEntity", true},
		{429, "TooManyRequests", false},
		{499, "HTTP499", true},
		{500, "InternalServerError", false},
		{502, "BadGateway", false},
		{503, "ServiceUnavailable", false},
		{599, "HTTP599", false},
	} {
		t.Run(strconv.Itoa(tt.status), func(t *testing.T) {
			t.Parallel()
			api := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				if tt.status != http.StatusNotModified {
					_, _ = io.WriteString(w, `{"error": "secret"}`)
				}
			})
			_, err := call(t.Context(), api)
			appErr := applicationError(t, err)
			assert.Equal(t, tt.typ, appErr.Type())
			assert.Equal(t, tt.final, appErr.NonRetryable())
			assert.Zero(t, appErr.NextRetryDelay(), "the retry policy decides")
			assert.NotContains(t, err.Error(), "secret")
			assert.Contains(t, err.Error(), "find_parcel of parcel-db")

			var status interface{ HTTPStatus() int }
			require.ErrorAs(t, err, &status)
			assert.Equal(t, tt.status, status.HTTPStatus())
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		header  string
		atLeast time.Duration
		atMost  time.Duration
	}{
		{"", 0, 0},
		{"0", 0, 0},
		{"7", 7 * time.Second, 7 * time.Second},
		{"86400", time.Hour, time.Hour},
		{"18446744073709551615", time.Hour, time.Hour},
		{"-5", 0, 0},
		{"soon", 0, 0},
		{time.Now().Add(20 * time.Minute).UTC().Format(http.TimeFormat), 15 * time.Minute, 20 * time.Minute},
		{time.Now().Add(-20 * time.Minute).UTC().Format(http.TimeFormat), 0, 0},
	} {
		t.Run(tt.header, func(t *testing.T) {
			t.Parallel()
			api := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", tt.header)
				w.WriteHeader(http.StatusTooManyRequests)
			})
			_, err := call(t.Context(), api)

			var hint interface{ RetryAfterHint() time.Duration }
			require.ErrorAs(t, err, &hint)
			wait := hint.RetryAfterHint()
			assert.GreaterOrEqual(t, wait, tt.atLeast)
			assert.LessOrEqual(t, wait, tt.atMost)

			delay := applicationError(t, err).NextRetryDelay()
			assert.GreaterOrEqual(t, delay, wait, "never earlier than Retry-After")
			assert.LessOrEqual(t, delay, wait+wait/4)
		})
	}
}

func TestCheckID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"P", "PKG-1001", "1Z.999_AA1", strings.Repeat("x", 64)} {
		assert.NoError(t, httptool.CheckID("tracking_id", id), id)
	}
	for _, id := range []string{
		"", ".", "..", "-1", "a/b", "a b", "a\n", "a?b", "a%2f", "päckchen", strings.Repeat("x", 65),
	} {
		err := httptool.CheckID("tracking_id", id)
		appErr := applicationError(t, err)
		assert.Equal(t, httptool.TypeInvalidQuery, appErr.Type(), id)
		assert.True(t, appErr.NonRetryable())
		assert.Equal(t, "tracking_id must be 1 to 64 letters, digits, dots, hyphens or underscores", appErr.Message())
	}
}
