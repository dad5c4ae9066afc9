package toolcall

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

const (
	// DependencyUnavailable is the type of the application error that a refused
	// activity of a plain result type ends in. Its details hold one Unavailable.
	// It is non-retryable by itself; listing it in a retry policy's
	// NonRetryableErrorTypes does no harm.
	DependencyUnavailable = "DependencyUnavailable"
	// CodeUnavailable is Unavailable.Code.
	CodeUnavailable = "dependency_unavailable"
)

// Unavailable tells that a tool was not executed because its dependency is
// down, and what to do about it. As JSON it stays well under 2 KiB, past which
// the server would drop it from a pending activity.
type Unavailable struct {
	// Code is always "dependency_unavailable".
	Code       string `json:"code"`
	Dependency string `json:"dependency"`
	Region     string `json:"region"`
	// Tool is the activity type that was called.
	Tool string `json:"tool"`
	// Message is the instruction for the model.
	Message string `json:"message"`
	// RetryAfterSeconds and RetryAt say when it is worth trying again: at least
	// one second from now.
	RetryAfterSeconds int       `json:"retry_after_seconds"`
	RetryAt           time.Time `json:"retry_at"`
	// Since is when the outage began.
	Since time.Time `json:"since"`
	// Rule and Reason say why: "latency", "failure_rate", …, and in words with
	// the figures.
	Rule   breaker.Rule `json:"rule"`
	Reason string       `json:"reason"`
	// Outage is the outage workflow's ID, empty for as long as only the worker
	// that refused knows of it.
	Outage string `json:"outage,omitempty"`
}

// NewUnavailable makes what a model is told of a refused call to tool, as of now.
func NewUnavailable(tool string, r breaker.Refusal, now time.Time) Unavailable {
	wait := max(time.Second, r.RetryAt.Sub(now))
	u := Unavailable{
		Code:              CodeUnavailable,
		Dependency:        r.Key.Dependency,
		Region:            r.Key.Region,
		Tool:              tool,
		RetryAfterSeconds: int(math.Ceil(wait.Seconds())),
		RetryAt:           roundUp(now.Add(wait).UTC(), time.Millisecond),
		Since:             r.Since.UTC().Truncate(time.Millisecond),
		Rule:              r.Reason.Rule,
		Reason:            r.Reason.String(),
		Outage:            r.Outage,
	}
	u.Message = u.instruction()
	return u
}

func (u Unavailable) instruction() string {
	state := "temporarily unavailable"
	if u.Rule == breaker.RuleLatency {
		state = "temporarily too slow to use"
	}
	var s strings.Builder
	fmt.Fprintf(&s, "%s (%s) is %s; %s was not executed.", u.Dependency, u.Region, state, u.Tool)
	fmt.Fprintf(&s, " Do not call it again before %s (in %d s).", roundUp(u.RetryAt, time.Second).Format("15:04:05 UTC"), u.RetryAfterSeconds)
	s.WriteString(" Proceed without this information if you can, or escalate with what you have.")
	return s.String()
}

// roundUp rounds a time to retry at to whole units: rounded down, whoever heeds
// it would come too early.
func roundUp(t time.Time, unit time.Duration) time.Time { return t.Add(unit - 1).Truncate(unit) }
