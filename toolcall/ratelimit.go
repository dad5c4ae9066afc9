package toolcall

import (
	"fmt"
	"time"
)

// DependencyRateLimited is the type of the application error of an activity whose
// dependency works but asked for fewer calls. The error is retryable, and its details
// are one RateLimit. An error of type "TooManyRequests" has the same meaning, without
// details.
const DependencyRateLimited = "DependencyRateLimited"

// RateLimit is the result of a call whose dependency works but asked for fewer calls.
type RateLimit struct {
	Tool string `json:"tool"`
	// Message is the text for the model.
	Message string `json:"message"`
	// RetryAt is when the dependency accepts calls again, zero if it did not say so.
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// NewRateLimit returns the result of a call that was answered with "too many requests"
// at now. after is the wait that the dependency asked for, 0 if it named none.
func NewRateLimit(tool string, after time.Duration, now time.Time) RateLimit {
	l := RateLimit{Tool: tool}
	when := "later"
	if after > 0 {
		l.RetryAt = roundUp(now.Add(max(after, time.Second)).UTC(), time.Millisecond)
		when = "after " + formatTime(l.RetryAt, int(after.Seconds()))
	}
	l.Message = fmt.Sprintf("%s is rate-limited: its dependency works and asks for fewer calls. Call it again %s, or proceed without this information.", tool, when)
	return l
}
