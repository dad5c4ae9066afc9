package toolcall

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

const (
	// DependencyUnavailable is the type of the application error of a refused activity
	// whose result type is not a [Result]. Its details are one Unavailable. The error is
	// non-retryable; NonRetryableErrorTypes of a retry policy need not list it.
	DependencyUnavailable = "DependencyUnavailable"
	// CodeUnavailable is the value of Unavailable.Code.
	CodeUnavailable = "dependency_unavailable"

	// maxMessage limits the text for the model, in bytes, because transcripts cost tokens.
	maxMessage = 500
	// maxJSON is the size from which the server drops the details of a pending activity.
	maxJSON = 2 << 10
	// maxNames limits the list of tools and the list of regions in an Unavailable.
	// maxReason limits its reason, because an operator's note may have any length.
	maxNames  = 300
	maxReason = 150
	// maxKeyName limits the names of the dependency and of the region in a message.
	maxKeyName = 60
)

// The values of Unavailable.RegionFrom.
const (
	RegionFromWorker = "worker"
	RegionFromInput  = "input"
)

// Unavailable is the result of a call whose tool was not executed because its
// dependency is down. As JSON it is smaller than 2 KiB.
type Unavailable struct {
	// Code is always "dependency_unavailable".
	Code       string `json:"code"`
	Dependency string `json:"dependency"`
	Region     string `json:"region"`
	// RegionFrom is "worker" when all calls of the worker go to one region, and "input"
	// when the call's arguments name the region.
	RegionFrom string `json:"region_from"`
	// Tool is the activity type that was called. Tools are all tools of the dependency, as
	// many as fit.
	Tool  string   `json:"tool"`
	Tools []string `json:"tools,omitempty"`
	// Message is the text for the model, under 500 bytes. Worded is true if the
	// dependency's own Wording made it.
	Message string `json:"message"`
	Worded  bool   `json:"worded,omitempty"`
	// RetryAfterSeconds and RetryAt are when to try again, at least one second from now.
	RetryAfterSeconds int       `json:"retry_after_seconds"`
	RetryAt           time.Time `json:"retry_at"`
	// Since is when the outage began.
	Since time.Time `json:"since"`
	// Rule is what opened the breaker, such as "latency" or "failure_rate". Reason is the
	// same as a sentence with figures.
	Rule   breaker.Rule `json:"rule"`
	Reason string       `json:"reason"`
	// Required: the run cannot go on without this dependency.
	Required bool `json:"required,omitempty"`
	// Alternatives are the dependency's other regions that are closed, as far as the
	// refusing worker knows.
	Alternatives []string `json:"alternatives,omitempty"`
	// Refusals counts the consecutive refusals of this dependency and region in this run,
	// including this one. 0: nothing counts them.
	Refusals int `json:"refusals,omitempty"`
	// Outage is the workflow ID of the outage, empty while only the refusing worker knows
	// of it.
	Outage string `json:"outage,omitempty"`
}

// About describes a refused call for [NewUnavailable].
type About struct {
	// Tool is the activity type that was called. Tools are all tools of the dependency.
	Tool  string
	Tools []string
	// RegionFrom is [RegionFromWorker] or [RegionFromInput]. Default: RegionFromWorker.
	RegionFrom   string
	Required     bool
	Alternatives []string
	Refusals     int
	// Wording, if set, makes the message. A result that is empty or not under 500 bytes,
	// and a panic, are ignored.
	Wording func(Unavailable) string
}

// NewUnavailable returns the result of a call that r refuses at now.
func NewUnavailable(about About, r breaker.Refusal, now time.Time) Unavailable {
	u := Unavailable{
		Code:         CodeUnavailable,
		Dependency:   r.Key.Dependency,
		Region:       r.Key.Region,
		RegionFrom:   about.RegionFrom,
		Tool:         about.Tool,
		Tools:        firstFitting(about.Tools, maxNames),
		RetryAt:      r.RetryAt,
		Since:        r.Since.UTC().Truncate(time.Millisecond),
		Rule:         r.Reason.Rule,
		Reason:       shorten(r.Reason.String(), maxReason),
		Required:     about.Required,
		Alternatives: firstFitting(about.Alternatives, maxNames),
		Refusals:     about.Refusals,
		Outage:       r.Outage,
	}
	if u.RegionFrom == "" {
		u.RegionFrom = RegionFromWorker
	}
	u.setRetry(now)
	u.Message = u.instruction()
	if own := customMessage(about.Wording, u); own != "" {
		u.Message, u.Worded = own, true
	}
	u.fit()
	return u
}

// fit shortens the lists of names, the longer one first, until u as JSON is smaller
// than maxJSON.
func (u *Unavailable) fit() {
	for len(u.Tools)+len(u.Alternatives) > 0 {
		if text, err := json.Marshal(u); err != nil || len(text) < maxJSON {
			return
		}
		if t, a := len(u.Tools), len(u.Alternatives); t > a {
			u.Tools = u.Tools[:t-1]
		} else {
			u.Alternatives = u.Alternatives[:a-1]
		}
	}
}

// repeated is u for a further refused call of the same run.
func (u Unavailable) repeated(tool string, refusals int, now time.Time) Unavailable {
	own := u.Message
	u.Tool, u.Refusals = tool, refusals
	u.setRetry(now)
	u.Message = u.instruction()
	if refusals > 1 {
		own = u.warning() + " " + own
	}
	if u.Worded = u.Worded && len(own) < maxMessage; u.Worded {
		u.Message = own
	}
	return u
}

// setRetry sets when to try again, counted from now.
func (u *Unavailable) setRetry(now time.Time) {
	wait := max(time.Second, u.RetryAt.Sub(now))
	u.RetryAfterSeconds = int(math.Ceil(wait.Seconds()))
	u.RetryAt = roundUp(now.Add(wait).UTC(), time.Millisecond)
}

func (u Unavailable) instruction() string {
	state := "temporarily unavailable"
	switch u.Rule {
	case breaker.RuleLatency:
		state = "temporarily too slow to use"
	case breaker.RuleForced:
		state = "switched off by an operator"
	}
	s := fmt.Sprintf("%s (%s) is %s; %s was not executed.",
		shorten(u.Dependency, maxKeyName), shorten(u.Region, maxKeyName), state, shortName(u.Tool))
	if u.Refusals > 1 {
		s += " " + u.warning()
	}
	s += fmt.Sprintf(" Do not call it again before %s (in %d s).", formatTime(u.RetryAt, u.RetryAfterSeconds), u.RetryAfterSeconds)
	switch {
	case u.Required:
		s += " It is required: wait until then, or stop and escalate; do not answer without it."
	default:
		s += " Proceed without this information if you can, or escalate with what you have."
	}
	if len(u.Alternatives) > 0 {
		if more := " Regions that work: " + strings.Join(u.Alternatives, ", ") + "."; len(s)+len(more) < maxMessage {
			s += more
		}
	}
	return s
}

// warning is for a model that calls again although it was told not to.
func (u Unavailable) warning() string {
	return fmt.Sprintf("This is refusal %d in this run: calling again cannot help.", u.Refusals)
}

func customMessage(wording func(Unavailable) string, u Unavailable) (text string) {
	if wording == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	if text = wording(u); len(text) >= maxMessage {
		return ""
	}
	return text
}

// firstFitting returns the first names that together fit into so many bytes.
func firstFitting(names []string, bytes int) []string {
	for i, name := range names {
		if bytes -= len(name) + len(`"",`); bytes < 0 {
			return names[:i:i]
		}
	}
	return names
}

// shortName shortens the name of a tool, which a model may have invented.
func shortName(tool string) string { return shorten(tool, 100) }

// shorten cuts a text that is longer than so many bytes.
func shorten(text string, bytes int) string {
	if len(text) > bytes {
		text = text[:bytes] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// formatTime formats a retry time for a model, with the date if it is a day away or
// more.
func formatTime(t time.Time, away int) string {
	layout := "15:04:05 UTC"
	if away >= 24*60*60 {
		layout = "2006-01-02 15:04:05 UTC"
	}
	return roundUp(t.UTC(), time.Second).Format(layout)
}

// roundUp rounds a retry time up to whole units, so that a retry at that time is not too
// early.
func roundUp(t time.Time, unit time.Duration) time.Time { return t.Add(unit - 1).Truncate(unit) }
