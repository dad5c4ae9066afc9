package agent

import (
	"context"
	"encoding/json"
)

// Model decides what to do next, given the ticket and the transcript. Next is called
// inside an activity, possibly concurrently. A model keeps no state.
type Model interface {
	Next(ctx context.Context, c Conversation) (Turn, error)
}

// Conversation is a ticket and its transcript so far.
type Conversation struct {
	Ticket     Ticket    `json:"ticket"`
	Transcript []Message `json:"transcript"`
	// Tools are the tools offered in this turn. Unavailable ones are left out.
	Tools []string `json:"tools"`
}

// Message is one tool call and its result.
type Message struct {
	Call Call `json:"call"`
	// Text is the tool's result, or what to do without it.
	Text string `json:"text"`
	// Outcome is the call's toolcall.Outcome.
	Outcome string `json:"outcome"`
}

// Call is a tool call that a model requests.
type Call struct {
	Tool string `json:"tool"`
	// Args is a JSON object. It is empty if the tool could not decode what the model
	// wrote; the call then ends in an error.
	Args json.RawMessage `json:"args,omitempty"`
}

// Turn is what a model requests next: tool calls, or the end of the run.
type Turn struct {
	Calls  []Call  `json:"calls,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
}
