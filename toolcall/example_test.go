package toolcall_test

import (
	"encoding/json"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// In the agent's workflow, one call ends in something that a model can read
// whether the tool answered, failed, or was not executed at all.
func ExampleExecute() {
	_ = func(ctx workflow.Context, query carrier.Query) (string, error) {
		status, err := toolcall.Execute[carrier.Status](ctx, "get_delivery_status", query)
		if err != nil {
			return "", err // the run itself is over: it was cancelled
		}
		return status.ForModel(), nil // the value, or what to do without it
	}
}

// One turn of an agent: the model reads only of the tools that are worth calling,
// its calls run side by side, and what the run was told is down is not asked
// again.
func ExampleWithRun() {
	type toolCall struct { // as the model made it up
		ID, Tool string
		Args     json.RawMessage
	}
	type ask func(ctx workflow.Context, transcript map[string]string, tools []string) ([]toolCall, error)

	_ = func(ctx workflow.Context, model ask) error {
		ctx = toolcall.WithRun(ctx, toolcall.Run{
			Tools:    []string{"get_delivery_status", "get_shipping_label"},
			Deadline: 2 * time.Minute,
		})
		transcript := map[string]string{}
		for {
			turn, err := model(ctx, transcript, toolcall.OnOffer(ctx))
			if err != nil || len(turn) == 0 {
				return err
			}
			var calls []toolcall.Call[json.RawMessage]
			for _, c := range turn {
				calls = append(calls, toolcall.Call[json.RawMessage]{Tool: c.Tool, Args: []any{c.Args}})
			}
			results, err := toolcall.ExecuteAll(ctx, calls...)
			if err != nil {
				return err // the run itself is over: it was cancelled
			}
			for i, r := range results {
				transcript[turn[i].ID] = r.ForModel()
			}
		}
	}
}

// While the carrier is down, what the warehouse last heard of the parcel is
// better than nothing. The model reads whose answer it is, and how old.
func ExampleCall() {
	_ = func(ctx workflow.Context, query carrier.Query, last carrier.Status, heard time.Time) (string, error) {
		status, err := toolcall.Call[carrier.Status]{
			Tool:     "get_delivery_status",
			Args:     []any{query},
			Fallback: toolcall.Cached(last, heard),
		}.Execute(ctx)
		if err != nil {
			return "", err
		}
		return status.ForModel(), nil
	}
}
