package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/activities/orders"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// Scripted is a model that needs no provider. It gets the order, asks the carrier
// for status and events, creates a label if the customer wants one, and answers. It
// calls a failed tool once more, as models do. Without an unavailable tool it gives a
// partial answer and escalates.
type Scripted struct {
	// Think is the duration of each turn.
	Think time.Duration
}

// Next decides by the transcript alone.
func (s Scripted) Next(ctx context.Context, c Conversation) (Turn, error) {
	timer := time.NewTimer(s.Think)
	defer timer.Stop()
	select {
	case <-timer.C:
		return s.decide(c), nil
	case <-ctx.Done():
		return Turn{}, ctx.Err()
	}
}

func (s Scripted) decide(c Conversation) Turn {
	found := map[string]Message{}
	failures := map[string]int{}
	for _, m := range c.Transcript {
		if m.Outcome == string(toolcall.Failed) {
			failures[m.Call.Tool]++
		}
		found[m.Call.Tool] = m
	}
	order, ok := found[orders.LookupOrder]
	if !ok {
		return call(orders.LookupOrder, orders.Query{OrderID: c.Ticket.OrderID})
	}
	var o orders.Order
	if json.Unmarshal([]byte(order.Text), &o) != nil {
		return Turn{Answer: &Answer{
			Text: "I could not find your order.", Empty: true, Escalation: "Order lookup failed: " + order.Text,
		}}
	}
	parcel := carriertools.Query{TrackingID: o.TrackingID, Region: o.Region}
	wanted := []string{carriertools.GetDeliveryStatus, carriertools.GetTrackingEvents}
	if c.Ticket.Return {
		wanted = append(wanted, carriertools.CreateReturnLabel)
	}
	for _, tool := range wanted {
		m, called := found[tool]
		switch {
		case !called:
			return call(tool, parcel)
		case m.Outcome == string(toolcall.Failed) && failures[tool] < 2:
			return call(tool, parcel)
		case m.Outcome == string(toolcall.Failed):
			return Turn{Answer: &Answer{
				Text: "I am sorry, something went wrong. Please try again later.", Empty: true,
			}}
		case m.Outcome == string(toolcall.Refused):
			return Turn{Answer: &Answer{
				Text: fmt.Sprintf("Your %s (order %s) is on its way with tracking number %s. Live tracking is unavailable right now; a colleague will send you the details.",
					o.Item, o.ID, o.TrackingID),
				Partial:    true,
				Escalation: fmt.Sprintf("Order %s, parcel %s. %s", o.ID, o.TrackingID, m.Text),
			}}
		}
	}
	var status carriertools.Status
	_ = json.Unmarshal([]byte(found[carriertools.GetDeliveryStatus].Text), &status)
	return Turn{Answer: &Answer{
		Text: fmt.Sprintf("Your %s is %s, last seen at %s.", o.Item, status.State, status.LastLocation),
	}}
}

func call(tool string, args any) Turn {
	encoded, err := json.Marshal(args)
	if err != nil {
		panic(err) // the tools' own query types always encode
	}
	return Turn{Calls: []Call{{Tool: tool, Args: encoded}}}
}
