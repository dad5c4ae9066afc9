package agent

import (
	"context"
	"encoding/json"
)

// Model decides what to do next, given the ticket and all that has happened. It
// is called inside an activity, may be called concurrently, and keeps no state.
type Model interface {
	Next(ctx context.Context, c Conversation) (Turn, error)
}

// Conversation is a ticket and its transcript so far.
type Conversation struct {
	Ticket     Ticket    `json:"ticket"`
	Transcript []Message `json:"transcript"`
}

// Message is one tool call and what the model reads of it.
type Message struct {
	Call Call `json:"call"`
	// Text is the tool's answer, or what to do without it.
	Text string `json:"text"`
	// Outcome is "value", "unavailable" or "error".
	Outcome string `json:"outcome"`
}

// Call is a model's wish to call a tool.
type Call struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// Turn is what a model wants next: tools called, or the end.
type Turn struct {
	Calls  []Call  `json:"calls,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
}

// Answer ends a run.
type Answer struct {
	// Text is for the customer.
	Text string `json:"text"`
	// Partial: some of what was asked could not be found out.
	Partial bool `json:"partial"`
	// Escalation is for a human who takes over, empty when none has to.
	Escalation string `json:"escalation,omitempty"`
	// Empty: the run found out nothing that helps the customer.
	Empty bool `json:"empty,omitempty"`
}
