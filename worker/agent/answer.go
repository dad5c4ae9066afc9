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
	// Partial: some of what was asked could not be found out.
	Partial bool `json:"partial"`
	// Escalation is for a human who takes over, empty when none has to.
	Escalation string `json:"escalation,omitempty"`
	// Empty: the run found out nothing that helps the customer.
	Empty bool `json:"empty,omitempty"`
}

// unfinished is the answer of a run that no model ended: what the transcript
// holds for the customer, and all of it for the colleague who takes over.
func unfinished(c Conversation, why string) *Answer {
	a := Answer{Partial: true, Empty: true, Escalation: strings.TrimSpace(why + " " + report(c, false))}
	var said []string
	var o orders.Order
	if c.found(orders.LookupOrder, &o) {
		said = append(said, fmt.Sprintf("Your %s (order %s) has tracking number %s.", o.Item, o.ID, o.TrackingID))
	}
	var s carriertools.Status
	if c.found(carriertools.GetDeliveryStatus, &s) {
		said = append(said, fmt.Sprintf("It is %s, last seen at %s.", s.State, s.LastLocation))
	}
	a.Empty = len(said) == 0
	a.Text = strings.Join(append(said, "I could not find out everything; a colleague will get back to you."), " ")
	return &a
}

// gaps is what the tools that a conversation needed and did not get said last,
// empty when there are none.
func gaps(c Conversation) string { return report(c, true) }

// maxReported bounds what a human is told of one tool.
const maxReported = 300

// report is what each tool said last, or only each that gave no answer.
func report(c Conversation, gaps bool) string {
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
		_, exists := manuals[tool]
		if !gaps || exists && !m.answered() {
			lines = append(lines, shortened(tool+": "+m.Text, maxReported))
		}
	}
	return strings.Join(lines, " ")
}

func (m Message) answered() bool {
	return m.Outcome == string(toolcall.OK) || m.Outcome == string(toolcall.Degraded)
}

// count is how many calls ended in a way.
func (c Conversation) count(o toolcall.Outcome) (n int) {
	for _, m := range c.Transcript {
		if m.Outcome == string(o) {
			n++
		}
	}
	return n
}

// found reads the last answer of a tool.
func (c Conversation) found(tool string, answer any) bool {
	for i := len(c.Transcript) - 1; i >= 0; i-- {
		if m := c.Transcript[i]; m.Call.Tool == tool && m.Outcome == string(toolcall.OK) {
			return json.Unmarshal([]byte(m.Text), answer) == nil
		}
	}
	return false
}

func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
