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
	// Tools are those worth calling in this turn: one that this run was told is
	// unavailable is not offered again.
	Tools []string `json:"tools"`
}

// Message is one tool call and what the model reads of it.
type Message struct {
	Call Call `json:"call"`
	// Text is the tool's answer, or what to do without it.
	Text string `json:"text"`
	// Outcome is how the call ended: a toolcall.Outcome.
	Outcome string `json:"outcome"`
}

// Call is a model's wish to call a tool.
type Call struct {
	Tool string `json:"tool"`
	// Args is a JSON object, empty when the model wrote nothing that the tool
	// could read: such a call is answered with that.
	Args json.RawMessage `json:"args,omitempty"`
}

// Turn is what a model wants next: tools called, or the end.
type Turn struct {
	Calls  []Call  `json:"calls,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
}
