package toolcall_test

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
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

func TestNewUnavailable_HasEverythingFromTheRefusal(t *testing.T) {
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
	// A slow dependency is not unreachable. People who read "unavailable" would look
	// for the wrong fault.
	assert.Equal(t, "carrier-api (eu-west) is temporarily too slow to use; "+rest, forModel(slow()))
}

// Figures and the workflow ID are for operators. The model only needs to know what
// to do.
func TestForModel_HasNoReasonAndNoWorkflowID(t *testing.T) {
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

// The server drops the details of a pending activity from 2 KiB, and transcripts
// cost tokens.
func TestUnavailable_StaysSmallWithTheLongestNames(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("n", 100)
	require.NoError(t, breaker.ValidateName(longest))
	require.Error(t, breaker.ValidateName(longest+"n"), "this test must use the longest allowed name")
	key := breaker.Key{Dependency: longest, Region: longest}
	most := math.MaxInt32
	reason := breaker.Reason{
		Rule: breaker.RuleLatency, Counts: breaker.Counts{Samples: most, Failures: most, Slow: most}, Hung: most,
		Horizon: 999*time.Hour + 59*time.Minute + 59999*time.Millisecond, FailureRate: 0.123456789,
		Latency: 999*time.Hour + 59*time.Minute + 59999*time.Millisecond, Quantile: 0.98765,
	}
	operator := breaker.Reason{Rule: breaker.RuleForced, By: longest, Note: strings.Repeat(`"why"`+"\n", 1000)}
	many := slices.Repeat([]string{"n", longest[:10], longest[:50]}, 100)
	for name, about := range map[string]toolcall.About{
		"one tool":          {Tool: longest},
		"tools":             {Tool: longest, Tools: many},
		"tools and regions": {Tool: longest, Tools: many, Alternatives: many},
		"required":          {Tool: longest, Tools: many, Alternatives: many, Required: true},
		"refused often":     {Tool: longest, Tools: many, Alternatives: many, Required: true, Refusals: most},
		"few long names":    {Tool: longest, Tools: []string{longest, longest, longest}, Alternatives: []string{longest, longest, longest}, Refusals: most},
		"worded": {Tool: longest, Tools: many, Alternatives: many, Refusals: most, Wording: func(toolcall.Unavailable) string {
			return strings.Repeat("\"\n", 249)
		}},
	} {
		for _, reason := range []breaker.Reason{reason, operator} {
			t.Run(name+" "+string(reason.Rule), func(t *testing.T) {
				t.Parallel()
				u := toolcall.NewUnavailable(about, breaker.Refusal{
					Key: key, State: breaker.Recovering, Reason: reason, Outage: "outage/" + key.String(),
					Since: now.Add(time.Millisecond), RetryAt: now.Add(100 * 24 * time.Hour).Add(time.Millisecond),
				}, now)
				details, err := json.Marshal(u)
				require.NoError(t, err)
				assert.Less(t, len(details), 2<<10)
				assert.Less(t, len(u.Message), 500)
				assert.Equal(t, about.Wording != nil, u.Worded)
				assert.Contains(t, u.Message+u.Tool, longest, "the full name of the tool is there")
			})
		}
	}
}

func TestUnavailable_KeepsWhatFits(t *testing.T) {
	t.Parallel()
	tools, regions := []string{tool, "get_label"}, []string{"us-east", "ap-south"}
	u := toolcall.NewUnavailable(toolcall.About{
		Tool: tool, Tools: tools, Alternatives: regions, RegionFrom: toolcall.RegionFromInput, Required: true, Refusals: 2,
	}, refusal(), now)
	assert.Equal(t, tools, u.Tools)
	assert.Equal(t, regions, u.Alternatives)
	assert.Equal(t, toolcall.RegionFromInput, u.RegionFrom)
	assert.True(t, u.Required)
	assert.Equal(t, 2, u.Refusals)
}

func TestForModel_HasTheDetailsOfTheRefusal(t *testing.T) {
	t.Parallel()
	forced := refusal()
	forced.Reason = breaker.Reason{Rule: breaker.RuleForced, By: "kim", Note: "maintenance"}
	const before = "carrier-api (eu-west) is temporarily unavailable; get_delivery_status was not executed."
	const when = " Do not call it again before 14:00:30 UTC (in 30 s)."
	const without = " Proceed without this information if you can, or escalate with what you have."
	for name, c := range map[string]struct {
		about   toolcall.About
		refusal breaker.Refusal
		want    string
	}{
		"required": {
			toolcall.About{Tool: tool, Required: true}, refusal(),
			before + when + " It is required: wait until then, or stop and escalate; do not answer without it.",
		},
		"regions that work": {
			toolcall.About{Tool: tool, Alternatives: []string{"us-east", "ap-south"}}, refusal(),
			before + when + without + " Regions that work: us-east, ap-south.",
		},
		"not the first refusal": {
			toolcall.About{Tool: tool, Refusals: 2}, refusal(),
			before + " This is refusal 2 in this run: calling again cannot help." + when + without,
		},
		"the first refusal": {toolcall.About{Tool: tool, Refusals: 1}, refusal(), before + when + without},
		// The operator's name and note are not for the model.
		"an operator": {
			toolcall.About{Tool: tool}, forced,
			"carrier-api (eu-west) is switched off by an operator; get_delivery_status was not executed." + when + without,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, toolcall.NewUnavailable(c.about, c.refusal, now).Message)
		})
	}
}

// A model would take a part of the list for all of it.
func TestForModel_NamesTheRegionsThatWorkOnlyIfAllFit(t *testing.T) {
	t.Parallel()
	regions := []string{strings.Repeat("r", 100), strings.Repeat("s", 100), "us-east"}
	u := toolcall.NewUnavailable(toolcall.About{Tool: strings.Repeat("n", 100), Alternatives: regions}, refusal(), now)
	assert.Equal(t, regions, u.Alternatives)
	assert.NotContains(t, u.Message, "Regions that work")
}

func TestWording_ReplacesTheMessage(t *testing.T) {
	t.Parallel()
	var given toolcall.Unavailable
	u := toolcall.NewUnavailable(toolcall.About{Tool: tool, Required: true, Wording: func(u toolcall.Unavailable) string {
		given = u
		return "Ask the customer to call " + u.Dependency + "."
	}}, refusal(), now)
	assert.Equal(t, "Ask the customer to call carrier-api.", u.Message)
	assert.True(t, u.Worded)
	given.Message, given.Worded = u.Message, true
	assert.Equal(t, given, u, "Wording gets all fields")
}

func TestWording_IsIgnoredIfUnusable(t *testing.T) {
	t.Parallel()
	byDefault := toolcall.NewUnavailable(toolcall.About{Tool: tool}, refusal(), now)
	for name, wording := range map[string]func(toolcall.Unavailable) string{
		"none":     nil,
		"empty":    func(toolcall.Unavailable) string { return "" },
		"too long": func(toolcall.Unavailable) string { return strings.Repeat("x", 500) },
		"panics":   func(toolcall.Unavailable) string { panic("hunter2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, byDefault, toolcall.NewUnavailable(toolcall.About{Tool: tool, Wording: wording}, refusal(), now))
		})
	}
}

var clockTime = regexp.MustCompile(`before (\d\d:\d\d:\d\d) UTC \(in (\d+) s\)`)

// A retry after the seconds, at the time, or at the time in the text is not too early,
// and never at once.
func TestRetryTime_IsNeverEarly(t *testing.T) {
	t.Parallel()
	inTokyo := now.In(time.FixedZone("JST", 9*60*60))
	for name, c := range map[string]struct {
		now, retryAt time.Time
		seconds      int
		text         string
	}{
		"in half a minute":               {now, now.Add(30 * time.Second), 30, "14:00:30"},
		"given in another zone":          {inTokyo, inTokyo.Add(30 * time.Second), 30, "14:00:30"},
		"in one second":                  {now, now.Add(time.Second), 1, "14:00:01"},
		"in a part of a second":          {now, now.Add(time.Millisecond), 1, "14:00:01"},
		"now":                            {now, now, 1, "14:00:01"},
		"in the past":                    {now, now.Add(-time.Hour), 1, "14:00:01"},
		"never set":                      {now, time.Time{}, 1, "14:00:01"},
		"a second and a part":            {now, now.Add(1400 * time.Millisecond), 2, "14:00:02"},
		"between two seconds":            {now.Add(500 * time.Millisecond), now.Add(1900 * time.Millisecond), 2, "14:00:02"},
		"in the past, between seconds":   {now.Add(900 * time.Millisecond), now, 1, "14:00:02"},
		"a part of a millisecond late":   {now, now.Add(30*time.Second + time.Microsecond), 31, "14:00:31"},
		"over midnight":                  {now, now.Add(10 * time.Hour), 36000, "00:00:00"},
		"beyond the range of a duration": {now, now.AddDate(1000, 0, 0), math.MaxInt64/int(time.Second) + 1, ""},
		"at the largest duration":        {now, now.Add(math.MaxInt64), math.MaxInt64/int(time.Second) + 1, ""},
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

// An operator may switch a tool off for days. A model would take a time without a
// date for today's.
func TestRetryTime_HasADateWhenItIsDaysAway(t *testing.T) {
	t.Parallel()
	r := refusal()
	r.RetryAt = now.Add(24*time.Hour - time.Second)
	assert.Contains(t, toolcall.NewUnavailable(toolcall.About{Tool: "t"}, r, now).Message, "before 13:59:59 UTC (in 86399 s)")
	r.RetryAt = now.Add(7 * 24 * time.Hour)
	assert.Contains(t, toolcall.NewUnavailable(toolcall.About{Tool: "t"}, r, now).Message, "before 2026-03-08 14:00:00 UTC (in 604800 s)")
}

// Two refusals in the same state of the breaker have the same retry time.
func TestRetryTime_IsTheSameForTwoRefusals(t *testing.T) {
	t.Parallel()
	first := toolcall.NewUnavailable(toolcall.About{Tool: "t"}, refusal(), now)
	second := toolcall.NewUnavailable(toolcall.About{Tool: "t"}, refusal(), now.Add(20*time.Second))
	assert.Equal(t, first.RetryAt, second.RetryAt)
	assert.Equal(t, 10, second.RetryAfterSeconds)
}
