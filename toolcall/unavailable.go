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
	// DependencyUnavailable is the type of the application error that a refused
	// activity of a plain result type ends in. Its details hold one Unavailable.
	// It is non-retryable by itself; listing it in a retry policy's
	// NonRetryableErrorTypes does no harm.
	DependencyUnavailable = "DependencyUnavailable"
	// CodeUnavailable is Unavailable.Code.
	CodeUnavailable = "dependency_unavailable"

	// maxMessage bounds what a model is told: a transcript is paid for by the token.
	maxMessage = 500
	// maxJSON is where the server drops an Unavailable from a pending activity.
	maxJSON = 2 << 10
	// maxNamed bounds the names of tools and of regions in an Unavailable,
	// maxReason its reason: an operator's note may be of any length.
	maxNamed  = 300
	maxReason = 150
	// maxKeyName bounds the dependency's and the region's name in a message.
	maxKeyName = 60
)

// Where a call's region comes from: Unavailable.RegionFrom.
const (
	RegionFromWorker = "worker"
	RegionFromInput  = "input"
)

// Unavailable tells that a tool was not executed because its dependency is
// down, and what to do about it. As JSON it stays under 2 KiB.
type Unavailable struct {
	// Code is always "dependency_unavailable".
	Code       string `json:"code"`
	Dependency string `json:"dependency"`
	Region     string `json:"region"`
	// RegionFrom is "worker" when every call of a worker goes to its region, and
	// "input" when the call's arguments say where it goes.
	RegionFrom string `json:"region_from"`
	// Tool is the activity type that was called, Tools are all that need the
	// dependency, as far as they fit.
	Tool  string   `json:"tool"`
	Tools []string `json:"tools,omitempty"`
	// Message is the instruction for the model, under 500 bytes. Worded says that
	// the dependency's own wording made it.
	Message string `json:"message"`
	Worded  bool   `json:"worded,omitempty"`
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
	// Required: there is no going on without this dependency.
	Required bool `json:"required,omitempty"`
	// Alternatives are the dependency's other regions that are closed, as far as
	// the worker that refused knows.
	Alternatives []string `json:"alternatives,omitempty"`
	// Refusals counts the refusals in a row that this run got for this dependency
	// and region, this one included; 0 when nobody counted.
	Refusals int `json:"refusals,omitempty"`
	// Outage is the outage workflow's ID, empty for as long as only the worker
	// that refused knows of it.
	Outage string `json:"outage,omitempty"`
}

// About is what a refusal by itself does not say.
type About struct {
	// Tool is the activity type that was called, Tools are all of the dependency.
	Tool  string
	Tools []string
	// RegionFrom is [RegionFromWorker] or [RegionFromInput]. Default: the worker.
	RegionFrom   string
	Required     bool
	Alternatives []string
	Refusals     int
	// Wording replaces the message. What is empty, longer than 500 bytes, or
	// panics, is not used. Optional.
	Wording func(Unavailable) string
}

// NewUnavailable makes what a model is told of a refused call, as of now.
func NewUnavailable(about About, r breaker.Refusal, now time.Time) Unavailable {
	u := Unavailable{
		Code:         CodeUnavailable,
		Dependency:   r.Key.Dependency,
		Region:       r.Key.Region,
		RegionFrom:   about.RegionFrom,
		Tool:         about.Tool,
		Tools:        fitting(about.Tools, maxNamed),
		RetryAt:      r.RetryAt,
		Since:        r.Since.UTC().Truncate(time.Millisecond),
		Rule:         r.Reason.Rule,
		Reason:       shortened(r.Reason.String(), maxReason),
		Required:     about.Required,
		Alternatives: fitting(about.Alternatives, maxNamed),
		Refusals:     about.Refusals,
		Outage:       r.Outage,
	}
	if u.RegionFrom == "" {
		u.RegionFrom = RegionFromWorker
	}
	u.timed(now)
	u.Message = u.instruction()
	if own := worded(about.Wording, u); own != "" {
		u.Message, u.Worded = own, true
	}
	u.fit()
	return u
}

// fit drops names, the longer list's first, until u as JSON is under maxJSON.
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

// again is u for another call of the same run, which nobody executed either.
func (u Unavailable) again(tool string, refusals int, now time.Time) Unavailable {
	own := u.Message
	u.Tool, u.Refusals = tool, refusals
	u.timed(now)
	u.Message = u.instruction()
	if refusals > 1 {
		own = u.told() + " " + own
	}
	if u.Worded = u.Worded && len(own) < maxMessage; u.Worded {
		u.Message = own
	}
	return u
}

// timed sets when it is worth trying again, seen from now.
func (u *Unavailable) timed(now time.Time) {
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
		shortened(u.Dependency, maxKeyName), shortened(u.Region, maxKeyName), state, named(u.Tool))
	if u.Refusals > 1 {
		s += " " + u.told()
	}
	s += fmt.Sprintf(" Do not call it again before %s (in %d s).", clock(u.RetryAt, u.RetryAfterSeconds), u.RetryAfterSeconds)
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

// told is for a model that did not heed what it read.
func (u Unavailable) told() string {
	return fmt.Sprintf("This is refusal %d in this run: calling again cannot help.", u.Refusals)
}

func worded(wording func(Unavailable) string, u Unavailable) (text string) {
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

// fitting gives the first of names that take no more than so many bytes.
func fitting(names []string, bytes int) []string {
	for i, name := range names {
		if bytes -= len(name) + len(`"",`); bytes < 0 {
			return names[:i:i]
		}
	}
	return names
}

// named is a tool's name in a text; a model may have made it up.
func named(tool string) string { return shortened(tool, 100) }

// shortened gives the beginning of a text that is longer than so many bytes.
func shortened(text string, bytes int) string {
	if len(text) > bytes {
		text = text[:bytes] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// clock is a time to retry at as a model reads it, with its date if it is further
// away than a time of day can say.
func clock(t time.Time, away int) string {
	layout := "15:04:05 UTC"
	if away >= 24*60*60 {
		layout = "2006-01-02 15:04:05 UTC"
	}
	return roundUp(t.UTC(), time.Second).Format(layout)
}

// roundUp rounds a time to retry at to whole units: rounded down, whoever heeds
// it would come too early.
func roundUp(t time.Time, unit time.Duration) time.Time { return t.Add(unit - 1).Truncate(unit) }
