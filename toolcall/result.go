package toolcall

import (
	"encoding/json"
	"fmt"
)

// Outcome says which way a tool call ended.
type Outcome string

const (
	// OK: the tool answered; Result.Value holds its answer.
	OK Outcome = "value"
	// Refused: the tool was not executed; Result.Unavailable says why.
	Refused Outcome = "unavailable"
	// Failed: the tool was executed and failed, retries included; Result.Error
	// says how.
	Failed Outcome = "error"
)

// Result is how a tool call ended: exactly one of Value, Unavailable and Error
// counts. The zero Result is a value, T's zero.
//
// An activity that declares Result[T] as its result type gets a refusal as a
// value of that type; see [Value].
//
// As JSON it is {"toolbreaker":"value","value":…},
// {"toolbreaker":"unavailable","unavailable":{…}} or
// {"toolbreaker":"error","error":{…}}.
type Result[T any] struct {
	Value       T
	Unavailable *Unavailable
	Error       *ToolError
}

// Value makes the Result of an activity that answered.
func Value[T any](v T) Result[T] { return Result[T]{Value: v} }

// ToolError is what a model may know of a tool that failed: its class and a
// short text, without stack, host names or the dependency's own words.
type ToolError struct {
	// Type is the application error's type, or "Timeout".
	Type string `json:"type"`
	Tool string `json:"tool"`
	// Message is the text for the model.
	Message string `json:"message"`
}

// Outcome says which of the three ways the call ended.
func (r Result[T]) Outcome() Outcome {
	switch {
	case r.Unavailable != nil:
		return Refused
	case r.Error != nil:
		return Failed
	default:
		return OK
	}
}

// ForModel is the text for the transcript: the value as JSON, or what to do
// without it.
func (r Result[T]) ForModel() string {
	switch r.Outcome() {
	case Refused:
		return r.Unavailable.Message
	case Failed:
		return r.Error.Message
	}
	text, err := json.Marshal(r.Value)
	if err != nil {
		return "The tool answered, but its answer cannot be shown. Proceed without it if you can, or escalate with what you have."
	}
	return string(text)
}

// IsToolResult marks Result among all result types that an activity may have.
func (Result[T]) IsToolResult() {}

type wireResult struct {
	Outcome     Outcome         `json:"toolbreaker"`
	Value       json.RawMessage `json:"value,omitempty"`
	Unavailable *Unavailable    `json:"unavailable,omitempty"`
	Error       *ToolError      `json:"error,omitempty"`
}

// MarshalJSON writes the form named at [Result].
func (r Result[T]) MarshalJSON() ([]byte, error) {
	w := wireResult{Outcome: r.Outcome(), Unavailable: r.Unavailable, Error: r.Error}
	if w.Outcome == OK {
		value, err := json.Marshal(r.Value)
		if err != nil {
			return nil, err
		}
		w.Value = value
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
	case w.Outcome == OK:
		return json.Unmarshal(w.Value, &r.Value)
	case w.Outcome == Refused && w.Unavailable != nil:
		r.Unavailable = w.Unavailable
	case w.Outcome == Failed && w.Error != nil:
		r.Error = w.Error
	default:
		return fmt.Errorf("no tool result: %q is not one of value, unavailable, error, or its part is missing", w.Outcome)
	}
	return nil
}
