package agent

import (
	"encoding/json"
	"fmt"
	"strings"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/activities/orders"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// Answer ends a run.
type Answer struct {
	// Text is for the customer.
	Text string `json:"text"`
	// Partial is true if part of the question could not be answered.
	Partial bool `json:"partial"`
	// Escalation is for the colleague who takes over. Empty: nobody has to.
	Escalation string `json:"escalation,omitempty"`
	// Empty is true if the answer holds nothing that helps the customer.
	Empty bool `json:"empty,omitempty"`
}

// partialAnswer is the answer of a run that no model finished. It tells the customer
// what the tools returned, and the colleague the last result of every tool.
func partialAnswer(c Conversation, why string) *Answer {
	a := Answer{Partial: true, Empty: true, Escalation: strings.TrimSpace(why + " " + lastResults(c, false))}
	var sentences []string
	var o orders.Order
	if c.found(orders.LookupOrder, &o) {
		sentences = append(sentences, fmt.Sprintf("Your %s (order %s) has tracking number %s.", o.Item, o.ID, o.TrackingID))
	}
	var s carriertools.Status
	if c.found(carriertools.GetDeliveryStatus, &s) {
		sentences = append(sentences, fmt.Sprintf("It is %s, last seen at %s.", s.State, s.LastLocation))
	}
	a.Empty = len(sentences) == 0
	a.Text = strings.Join(append(sentences, "I could not find out everything; a colleague will get back to you."), " ")
	return &a
}

// failedTools returns the last result of each tool that failed or was refused. Empty:
// there is none.
func failedTools(c Conversation) string { return lastResults(c, true) }

// maxResultText bounds the text about one tool in an escalation.
const maxResultText = 300

// lastResults returns the last result of each tool, or only of those that gave no
// answer.
func lastResults(c Conversation, failedOnly bool) string {
	last := map[string]Message{}
	var order []string
	for _, m := range c.Transcript {
		if _, called := last[m.Call.Tool]; !called {
			order = append(order, m.Call.Tool)
		}
		last[m.Call.Tool] = m
	}
	var lines []string
	for _, tool := range order {
		m := last[tool]
		_, exists := toolSpecs[tool]
		if !failedOnly || exists && !m.answered() {
			lines = append(lines, truncate(tool+": "+m.Text, maxResultText))
		}
	}
	return strings.Join(lines, " ")
}

func (m Message) answered() bool {
	return m.Outcome == string(toolcall.OK) || m.Outcome == string(toolcall.Degraded)
}

// count returns how many calls had this outcome.
func (c Conversation) count(o toolcall.Outcome) (n int) {
	for _, m := range c.Transcript {
		if m.Outcome == string(o) {
			n++
		}
	}
	return n
}

// found decodes the last value of a tool into answer, and reports whether there is
// one.
func (c Conversation) found(tool string, answer any) bool {
	for i := len(c.Transcript) - 1; i >= 0; i-- {
		if m := c.Transcript[i]; m.Call.Tool == tool && m.Outcome == string(toolcall.OK) {
			return json.Unmarshal([]byte(m.Text), answer) == nil
		}
	}
	return false
}

func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
