package toolcall_test

import (
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
