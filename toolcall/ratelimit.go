package toolcall

import (
	"fmt"
	"time"
)

// DependencyRateLimited is the type of the application error that an activity
// ends in when its dependency only asked for a slower pace. Its details hold one
// RateLimit. It is retryable. The type "TooManyRequests" reads the same, without
// details.
const DependencyRateLimited = "DependencyRateLimited"

// RateLimit tells that a tool was called, and that its dependency is up but
// asked for a slower pace.
type RateLimit struct {
	Tool string `json:"tool"`
	// Message is the text for the model.
	Message string `json:"message"`
	// RetryAt is when the dependency asked to be called again, zero when it did
	// not say.
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// NewRateLimit makes what a model is told of a call that was answered with "too
// many requests" at now. after is what the dependency asked for; 0: it did not
// say.
func NewRateLimit(tool string, after time.Duration, now time.Time) RateLimit {
	l := RateLimit{Tool: tool}
	when := "later"
	if after > 0 {
		l.RetryAt = roundUp(now.Add(max(after, time.Second)).UTC(), time.Millisecond)
		when = "after " + clock(l.RetryAt, int(after.Seconds()))
	}
	l.Message = fmt.Sprintf("%s is rate-limited: its dependency works and asks for fewer calls. Call it again %s, or proceed without this information.", tool, when)
	return l
}
