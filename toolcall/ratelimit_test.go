package toolcall_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

const slowDown = "get_delivery_status is rate-limited: its dependency works and asks for fewer calls. Call it again "

func TestNewRateLimit_HasTheRetryTime(t *testing.T) {
	t.Parallel()
	assert.Equal(t, toolcall.RateLimit{
		Tool: tool, RetryAt: now.Add(30 * time.Second), Message: slowDown + "after 14:00:30 UTC, or proceed without this information.",
	}, toolcall.NewRateLimit(tool, 30*time.Second, now))
}

func TestNewRateLimit_WithoutAWaitHasNoRetryTime(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, -time.Second} {
		assert.Equal(t, toolcall.RateLimit{
			Tool: tool, Message: slowDown + "later, or proceed without this information.",
		}, toolcall.NewRateLimit(tool, after, now))
	}
}

func TestNewRateLimit_IsNeverEarly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now   time.Time
		after time.Duration
		text  string
	}{
		"a part of a second":    {now, time.Millisecond, "14:00:01"},
		"a second and a part":   {now, 1400 * time.Millisecond, "14:00:02"},
		"between two seconds":   {now.Add(500 * time.Millisecond), 1400 * time.Millisecond, "14:00:02"},
		"part of a millisecond": {now, 30*time.Second + time.Microsecond, "14:00:31"},
		"in another zone":       {now.In(time.FixedZone("JST", 9*60*60)), time.Minute, "14:01:00"},
		"for ever":              {now, 1<<63 - 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := toolcall.NewRateLimit(tool, c.after, c.now)
			assert.Contains(t, l.Message, "after "+c.text)
			assert.False(t, l.RetryAt.Before(c.now.Add(c.after)))
			assert.False(t, l.RetryAt.Before(c.now.Add(time.Second)))
			assert.Equal(t, time.UTC, l.RetryAt.Location())
			assert.Equal(t, l.RetryAt, l.RetryAt.Truncate(time.Millisecond))
		})
	}
}

func TestExecute_ReadsARateLimitFromAnError(t *testing.T) {
	t.Parallel()
	limit := toolcall.NewRateLimit(tool, 30*time.Second, now)
	for _, kind := range []string{toolcall.DependencyRateLimited, "TooManyRequests"} {
		result := execute[status](t, status{}, temporal.NewApplicationError("slow down", kind, limit))
		assert.Equal(t, toolcall.Result[status]{Limit: &limit}, result)
		assert.Equal(t, toolcall.RateLimited, result.Outcome())
		assert.False(t, result.Answered())
	}
}

func TestExecute_ReadsARateLimitWithoutDetails(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"none":             temporal.NewApplicationError("hunter2", "TooManyRequests"),
		"none, own type":   temporal.NewApplicationError("hunter2", toolcall.DependencyRateLimited),
		"of another shape": temporal.NewApplicationError("hunter2", "TooManyRequests", "hunter2"),
		"of other members": temporal.NewApplicationError("hunter2", "TooManyRequests", map[string]any{"retry_at": now, "limit": 10}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := toolcall.NewRateLimit(tool, 0, now)
			assert.Equal(t, toolcall.Result[status]{Limit: &limit}, execute[status](t, status{}, end))
		})
	}
}

func TestExecute_ReadsARateLimitFromAValue(t *testing.T) {
	t.Parallel()
	limit := toolcall.NewRateLimit(tool, time.Minute, now)
	result := toolcall.Result[status]{Limit: &limit}
	require.Equal(t, result, execute[status](t, result, nil))
}
