package toolcall

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// Outcome is how a tool call ended.
type Outcome string

const (
	// OK: the tool answered. Result.Value is its answer.
	OK Outcome = "value"
	// Degraded: a fallback answered. Result.Value is its answer, and Result.StandIn names
	// the source.
	Degraded Outcome = "degraded"
	// Refused: the tool was not executed. Result.Unavailable has the reason.
	Refused Outcome = "unavailable"
	// RateLimited: the dependency works and asked for fewer calls; see Result.Limit.
	RateLimited Outcome = "rate_limited"
	// Failed: the tool failed, retries included, or could not be called. Result.Error has
	// the class of the error.
	Failed Outcome = "error"
)

// Result is how a tool call ended. Value is set, alone or with StandIn, or exactly one
// of Unavailable, Limit and Error is. The zero Result is the zero value of T as an
// answer.
//
// An activity whose result type is Result[T] returns answers with [Value], and gets a
// refusal as a value of that type.
//
// The JSON form can be read by a workflow in any SDK. It is one of
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

// ToolError is what the model learns of a failed tool: the class of the error and a
// short text. It has no stack, no host names, and no text of the dependency.
type ToolError struct {
	// Type is the type of the application error, or one of the Type constants.
	Type string `json:"type"`
	Tool string `json:"tool"`
	// Message is the text for the model.
	Message string `json:"message"`
}

// Types of a [ToolError] that are not the type of an application error.
const (
	TypeTimeout          = "Timeout"          // the tool did not answer in time
	TypeError            = "Error"            // the tool failed with an error that has no type
	TypeUnreadableResult = "UnreadableResult" // the result is not a T
	TypeUnknownTool      = "UnknownTool"      // there is no such tool; nothing was called
	TypeInvalidArguments = "InvalidArguments" // not JSON, or too large; nothing was called
	TypeNoTimeLeft       = "NoTimeLeft"       // the run's deadline has passed; nothing was called
)

// Outcome returns how the call ended.
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

// Answered reports whether Value is an answer, of the tool or of a fallback.
func (r Result[T]) Answered() bool { return r.Outcome() == OK || r.Outcome() == Degraded }

const (
	notEncodable = "The tool answered, but its answer cannot be shown. Proceed without it if you can, or escalate with what you have."
	// noMessage is used when an activity made a result without a message.
	noMessage = "The tool gave no answer. Proceed without it if you can, or escalate with what you have."
)

// ForModel returns the text for the transcript: the value as JSON, or what to do
// without it. It is never empty.
func (r Result[T]) ForModel() string {
	switch r.Outcome() {
	case Refused:
		return cmp.Or(r.Unavailable.Message, noMessage)
	case RateLimited:
		return cmp.Or(r.Limit.Message, noMessage)
	case Failed:
		return cmp.Or(r.Error.Message, noMessage)
	}
	text, err := json.Marshal(r.Value)
	if err != nil || len(text) == 0 {
		return notEncodable
	}
	if r.StandIn != nil {
		return r.StandIn.Message + " " + string(text)
	}
	return string(text)
}

// JSONForModel is [Result.ForModel] for a transcript of JSON. It returns the value
// itself, or an object: its member "status" is the outcome, and "message" is the text
// for the model.
func (r Result[T]) JSONForModel() json.RawMessage {
	out := struct {
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
		out.Status, out.Type = Failed, TypeUnreadableResult
	case Degraded:
		out.Message, out.Value = r.StandIn.Message, r.Value
	case Refused:
		u := r.Unavailable
		out.Dependency, out.Region, out.RetryAfterSeconds, out.Alternatives = u.Dependency, u.Region, u.RetryAfterSeconds, u.Alternatives
	case Failed:
		out.Type = r.Error.Type
	}
	text, err := json.Marshal(out)
	if err != nil {
		// Only a fallback's value can fail to encode here.
		out.Value, out.Message = nil, notEncodable
		text, _ = json.Marshal(out)
	}
	return text
}

// IsToolResult marks the type Result. The interceptor looks for this method to find
// activities that return one.
func (Result[T]) IsToolResult() {}

type wireResult struct {
	Outcome     Outcome         `json:"toolbreaker"`
	Value       json.RawMessage `json:"value,omitempty"`
	StandIn     *StandIn        `json:"stand_in,omitempty"`
	Unavailable *Unavailable    `json:"unavailable,omitempty"`
	Limit       *RateLimit      `json:"limit,omitempty"`
	Error       *ToolError      `json:"error,omitempty"`
}

// MarshalJSON returns the form described at [Result].
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

// UnmarshalJSON reads the form described at [Result]. Anything else is an error.
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
