package toolcall_test

import (
	"encoding/json"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

var now = time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC)

func failing() breaker.Reason {
	return breaker.Reason{
		Rule: breaker.RuleFailureRate, Counts: breaker.Counts{Samples: 20, Failures: 12},
		Horizon: 10 * time.Second, FailureRate: 0.5,
	}
}

func slow() breaker.Reason {
	return breaker.Reason{
		Rule: breaker.RuleLatency, Counts: breaker.Counts{Samples: 20, Failures: 1, Slow: 9}, Hung: 4,
		Horizon: time.Minute, Latency: 5 * time.Second, Quantile: 0.99,
	}
}

func refusal() breaker.Refusal {
	return breaker.Refusal{
		Key: breaker.Key{Dependency: "carrier-api", Region: "eu-west"}, State: breaker.Open, Reason: failing(),
		Since: now.Add(-10 * time.Second), RetryAt: now.Add(30 * time.Second), Outage: "outage/carrier-api/eu-west",
	}
}

func TestNewUnavailable_TellsAllThatTheBreakerKnows(t *testing.T) {
	t.Parallel()
	u := toolcall.NewUnavailable(toolcall.About{Tool: "get_delivery_status"}, refusal(), now)
	u.Message = ""
	assert.Equal(t, toolcall.Unavailable{
		Code:       "dependency_unavailable",
		Dependency: "carrier-api", Region: "eu-west", RegionFrom: "worker", Tool: "get_delivery_status",
		RetryAfterSeconds: 30, RetryAt: now.Add(30 * time.Second), Since: now.Add(-10 * time.Second),
		Rule: breaker.RuleFailureRate, Reason: "12 of 20 calls failed in 10s (over 50%)",
		Outage: "outage/carrier-api/eu-west",
	}, u)
}

func TestForModel_InstructsTheModel(t *testing.T) {
	t.Parallel()
	forModel := func(reason breaker.Reason) string {
		r := refusal()
		r.Reason = reason
		u := toolcall.NewUnavailable(toolcall.About{Tool: "get_delivery_status"}, r, now)
		return toolcall.Result[status]{Unavailable: &u}.ForModel()
	}
	const rest = "get_delivery_status was not executed. Do not call it again before 14:00:30 UTC (in 30 s). " +
		"Proceed without this information if you can, or escalate with what you have."
	assert.Equal(t, "carrier-api (eu-west) is temporarily unavailable; "+rest, forModel(failing()))
	assert.Equal(t, "carrier-api (eu-west) is temporarily unavailable; "+rest, forModel(breaker.Reason{Rule: breaker.RuleProbe}))
	// A slow dependency does answer: called unreachable, it would send the model,
	// and the people it escalates to, looking for the wrong fault.
	assert.Equal(t, "carrier-api (eu-west) is temporarily too slow to use; "+rest, forModel(slow()))
}

// Figures are for people: the model is told what to do, and neither the cause's
// words nor where it happened.
func TestForModel_HoldsNoReasonAndNoWorkflowID(t *testing.T) {
	t.Parallel()
	for _, reason := range []breaker.Reason{failing(), slow()} {
		r := refusal()
		r.Reason = reason
		u := toolcall.NewUnavailable(toolcall.About{Tool: "get_delivery_status"}, r, now)
		assert.NotContains(t, u.Message, u.Reason)
		assert.NotContains(t, u.Message, "calls")
		assert.NotContains(t, u.Message, u.Outage)
	}
}

// The server drops a pending activity's details past 2 KiB, and a transcript is
// paid for by the token.
func TestUnavailable_StaysSmallWithTheLongestNames(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("n", 100)
	require.NoError(t, breaker.ValidateName(longest))
	require.Error(t, breaker.ValidateName(longest+"n"), "the longest allowed name is longer than this test knows")
	key := breaker.Key{Dependency: longest, Region: longest}
	most := math.MaxInt32
	reason := breaker.Reason{
		Rule: breaker.RuleLatency, Counts: breaker.Counts{Samples: most, Failures: most, Slow: most}, Hung: most,
		Horizon: 999*time.Hour + 59*time.Minute + 59999*time.Millisecond, FailureRate: 0.123456789,
		Latency: 999*time.Hour + 59*time.Minute + 59999*time.Millisecond, Quantile: 0.98765,
	}
	u := toolcall.NewUnavailable(toolcall.About{Tool: longest}, breaker.Refusal{
		Key: key, State: breaker.Recovering, Reason: reason, Outage: "outage/" + key.String(),
		Since: now.Add(time.Millisecond), RetryAt: now.Add(100 * 24 * time.Hour).Add(time.Millisecond),
	}, now)
	details, err := json.Marshal(u)
	require.NoError(t, err)
	assert.Less(t, len(details), 2<<10)
	assert.Less(t, len(u.Message), 500)
}

var clockTime = regexp.MustCompile(`before (\d\d:\d\d:\d\d) UTC \(in (\d+) s\)`)

// Whoever heeds any of the three (the seconds, the time, the text) is neither
// too early nor told to come back at once.
func TestRetryTime_IsNeverEarly(t *testing.T) {
	t.Parallel()
	inTokyo := now.In(time.FixedZone("JST", 9*60*60))
	for name, c := range map[string]struct {
		now, retryAt time.Time
		seconds      int
		text         string
	}{
		"in half a minute":              {now, now.Add(30 * time.Second), 30, "14:00:30"},
		"given in another zone":         {inTokyo, inTokyo.Add(30 * time.Second), 30, "14:00:30"},
		"in one second":                 {now, now.Add(time.Second), 1, "14:00:01"},
		"in a part of a second":         {now, now.Add(time.Millisecond), 1, "14:00:01"},
		"now":                           {now, now, 1, "14:00:01"},
		"in the past":                   {now, now.Add(-time.Hour), 1, "14:00:01"},
		"never set":                     {now, time.Time{}, 1, "14:00:01"},
		"a second and a part":           {now, now.Add(1400 * time.Millisecond), 2, "14:00:02"},
		"between two seconds":           {now.Add(500 * time.Millisecond), now.Add(1900 * time.Millisecond), 2, "14:00:02"},
		"in the past, between seconds":  {now.Add(900 * time.Millisecond), now, 1, "14:00:02"},
		"a part of a millisecond late":  {now, now.Add(30*time.Second + time.Microsecond), 31, "14:00:31"},
		"over midnight":                 {now, now.Add(10 * time.Hour), 36000, "00:00:00"},
		"further than durations reach":  {now, now.AddDate(1000, 0, 0), math.MaxInt64/int(time.Second) + 1, ""},
		"on the edge of what they hold": {now, now.Add(math.MaxInt64), math.MaxInt64/int(time.Second) + 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := refusal()
			r.RetryAt = c.retryAt
			u := toolcall.NewUnavailable(toolcall.About{Tool: "get_delivery_status"}, r, c.now)
			assert.Equal(t, c.seconds, u.RetryAfterSeconds)
			assert.Equal(t, time.UTC, u.RetryAt.Location())
			assert.False(t, u.RetryAt.Before(c.now.Add(time.Second)), "RetryAt %v is less than a second away", u.RetryAt)
			if c.text == "" {
				return
			}
			assert.False(t, u.RetryAt.Before(c.retryAt), "RetryAt %v is early", u.RetryAt)
			text := clockTime.FindStringSubmatch(u.Message)
			require.NotNil(t, text, u.Message)
			assert.Equal(t, c.text, text[1])
		})
	}
}

func TestSince_IsUTC(t *testing.T) {
	t.Parallel()
	r := refusal()
	r.Since = now.In(time.FixedZone("JST", 9*60*60)).Add(123456 * time.Microsecond)
	u := toolcall.NewUnavailable(toolcall.About{Tool: "get_delivery_status"}, r, now)
	assert.Equal(t, now.Add(123*time.Millisecond), u.Since)
}
