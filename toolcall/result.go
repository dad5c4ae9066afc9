package toolcall

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// Outcome says which way a tool call ended.
type Outcome string

const (
	// OK: the tool answered; Result.Value holds its answer.
	OK Outcome = "value"
	// Degraded: a fallback answered in the tool's stead; Result.Value holds its
	// answer and Result.StandIn says whose it is.
	Degraded Outcome = "degraded"
	// Refused: the tool was not executed; Result.Unavailable says why.
	Refused Outcome = "unavailable"
	// RateLimited: the dependency works and asked for fewer calls; see Result.Limit.
	RateLimited Outcome = "rate_limited"
	// Failed: the tool was executed and failed, retries included, or could not be
	// called at all; Result.Error says how.
	Failed Outcome = "error"
)

// Result is how a tool call ended: Value counts, alone or with StandIn, or
// exactly one of Unavailable, Limit and Error does. The zero Result is a value,
// T's zero.
//
// An activity that declares Result[T] as its result type gets a refusal as a
// value of that type; see [Value].
//
// As JSON, which a workflow in any SDK can read, it is one of
//
//	{"toolbreaker":"value","value":…}
//	{"toolbreaker":"degraded","value":…,"stand_in":{…}}
//	{"toolbreaker":"unavailable","unavailable":{…}}
//	{"toolbreaker":"rate_limited","limit":{…}}
//	{"toolbreaker":"error","error":{…}}
type Result[T any] struct {
	Value       T
	StandIn     *StandIn
	Unavailable *Unavailable
	Limit       *RateLimit
	Error       *ToolError
}

// Value makes the Result of an activity that answered.
func Value[T any](v T) Result[T] { return Result[T]{Value: v} }

// ToolError is what a model may know of a tool that failed: its class and a
// short text, without stack, host names or the dependency's own words.
type ToolError struct {
	// Type is the application error's type, or one of the Type constants.
	Type string `json:"type"`
	Tool string `json:"tool"`
	// Message is the text for the model.
	Message string `json:"message"`
}

// The types of a [ToolError] that no tool has made.
const (
	TypeTimeout          = "Timeout"          // the tool did not answer in time
	TypeError            = "Error"            // it failed without saying how
	TypeUnreadableResult = "UnreadableResult" // its answer is none of T
	TypeUnknownTool      = "UnknownTool"      // the model invented it; nothing was called
	TypeInvalidArguments = "InvalidArguments" // they are no JSON, or too large; nothing was called
	TypeNoTimeLeft       = "NoTimeLeft"       // the run's deadline has passed; nothing was called
)

// Outcome says which way the call ended.
func (r Result[T]) Outcome() Outcome {
	switch {
	case r.Unavailable != nil:
		return Refused
	case r.Limit != nil:
		return RateLimited
	case r.Error != nil:
		return Failed
	case r.StandIn != nil:
		return Degraded
	default:
		return OK
	}
}

// Answered tells whether Value counts.
func (r Result[T]) Answered() bool { return r.Outcome() == OK || r.Outcome() == Degraded }

const (
	unshowable = "The tool answered, but its answer cannot be shown. Proceed without it if you can, or escalate with what you have."
	// unsaid is for what an activity made without a message.
	unsaid = "The tool gave no answer. Proceed without it if you can, or escalate with what you have."
)

// ForModel is the text for the transcript: the value as JSON, or what to do
// without it. It is never empty.
func (r Result[T]) ForModel() string {
	switch r.Outcome() {
	case Refused:
		return cmp.Or(r.Unavailable.Message, unsaid)
	case RateLimited:
		return cmp.Or(r.Limit.Message, unsaid)
	case Failed:
		return cmp.Or(r.Error.Message, unsaid)
	}
	text, err := json.Marshal(r.Value)
	if err != nil || len(text) == 0 {
		return unshowable
	}
	if r.StandIn != nil {
		return r.StandIn.Message + " " + string(text)
	}
	return string(text)
}

// JSONForModel is [Result.ForModel] for a transcript of JSON: the value itself, or
// an object whose member "status" is the outcome and "message" says what to do.
func (r Result[T]) JSONForModel() json.RawMessage {
	said := struct {
		Status            Outcome  `json:"status"`
		Message           string   `json:"message"`
		Dependency        string   `json:"dependency,omitempty"`
		Region            string   `json:"region,omitempty"`
		RetryAfterSeconds int      `json:"retry_after_seconds,omitempty"`
		Alternatives      []string `json:"alternatives,omitempty"`
		Type              string   `json:"type,omitempty"`
		Value             any      `json:"value,omitempty"`
	}{Status: r.Outcome(), Message: r.ForModel()}
	switch r.Outcome() {
	case OK:
		if text, err := json.Marshal(r.Value); err == nil && len(text) > 0 {
			return text
		}
		said.Status, said.Type = Failed, TypeUnreadableResult
	case Degraded:
		said.Message, said.Value = r.StandIn.Message, r.Value
	case Refused:
		u := r.Unavailable
		said.Dependency, said.Region, said.RetryAfterSeconds, said.Alternatives = u.Dependency, u.Region, u.RetryAfterSeconds, u.Alternatives
	case Failed:
		said.Type = r.Error.Type
	}
	text, err := json.Marshal(said)
	if err != nil {
		// Only the stand-in's value can do that.
		said.Value, said.Message = nil, unshowable
		text, _ = json.Marshal(said)
	}
	return text
}

// IsToolResult marks Result among all result types that an activity may have.
func (Result[T]) IsToolResult() {}

type wireResult struct {
	Outcome     Outcome         `json:"toolbreaker"`
	Value       json.RawMessage `json:"value,omitempty"`
	StandIn     *StandIn        `json:"stand_in,omitempty"`
	Unavailable *Unavailable    `json:"unavailable,omitempty"`
	Limit       *RateLimit      `json:"limit,omitempty"`
	Error       *ToolError      `json:"error,omitempty"`
}

// MarshalJSON writes the form named at [Result].
func (r Result[T]) MarshalJSON() ([]byte, error) {
	w := wireResult{Outcome: r.Outcome(), Unavailable: r.Unavailable, Limit: r.Limit, Error: r.Error}
	if r.Answered() {
		value, err := json.Marshal(r.Value)
		if err != nil {
			return nil, err
		}
		w.Value, w.StandIn = value, r.StandIn
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads the form named at [Result]. Anything else is an error.
func (r *Result[T]) UnmarshalJSON(data []byte) error {
	var w wireResult
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*r = Result[T]{}
	switch {
	case w.Outcome == OK, w.Outcome == Degraded && w.StandIn != nil:
		if w.Outcome == Degraded {
			r.StandIn = w.StandIn
		}
		return json.Unmarshal(w.Value, &r.Value)
	case w.Outcome == Refused && w.Unavailable != nil:
		r.Unavailable = w.Unavailable
	case w.Outcome == RateLimited && w.Limit != nil:
		r.Limit = w.Limit
	case w.Outcome == Failed && w.Error != nil:
		r.Error = w.Error
	default:
		return fmt.Errorf("no tool result: %q is not one of value, degraded, unavailable, rate_limited, error, or its part is missing", w.Outcome)
	}
	return nil
}
