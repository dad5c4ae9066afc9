package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

const (
	// WorkflowType is the agent's workflow type.
	WorkflowType = "SupportTicket"
	// AskModel is the activity type in which the model thinks.
	AskModel = "ask_model"
	// maxTurns ends a conversation whose model never does.
	maxTurns = 20
)

// Ticket is a customer's question about an order.
type Ticket struct {
	ID      string `json:"id"`
	OrderID string `json:"order_id"`
	// Question is what the customer wrote.
	Question string `json:"question"`
	// Return asks for a return label as well.
	Return bool `json:"return,omitempty"`
	// Speed divides every timeout and backoff of the run. Zero: 1.
	Speed float64 `json:"speed,omitempty"`
}

// Outcome is how a run ended.
type Outcome struct {
	Answer
	// ToolCalls is how many tools the model called, retries not counted.
	ToolCalls int `json:"tool_calls"`
	// Unavailable is how many of them were refused by an open breaker.
	Unavailable int `json:"unavailable"`
	// Seconds is how long the run took.
	Seconds float64 `json:"seconds"`
}

// Register puts the agent on a worker, thinking with model.
func Register(r worker.Registry, model Model) {
	r.RegisterWorkflowWithOptions(SupportTicket, workflow.RegisterOptions{Name: WorkflowType})
	r.RegisterActivityWithOptions(func(ctx context.Context, c Conversation) (Turn, error) {
		return model.Next(ctx, c)
	}, activity.RegisterOptions{Name: AskModel})
}

// SupportTicket works on one ticket until the model has an answer.
func SupportTicket(ctx workflow.Context, t Ticket) (Outcome, error) {
	var out Outcome
	begun := workflow.Now(ctx)
	modelCtx := workflow.WithActivityOptions(ctx, t.options(time.Minute))
	toolCtx := workflow.WithActivityOptions(ctx, t.options(35*time.Second))

	c := Conversation{Ticket: t}
	for range maxTurns {
		var turn Turn
		if err := workflow.ExecuteActivity(modelCtx, AskModel, c).Get(ctx, &turn); err != nil {
			return out, err
		}
		if turn.Answer != nil {
			out.Answer, out.Seconds = *turn.Answer, workflow.Now(ctx).Sub(begun).Seconds()
			return out, nil
		}
		for _, call := range turn.Calls {
			result, err := toolcall.Execute[json.RawMessage](toolCtx, call.Tool, call.Args)
			if err != nil {
				return out, err
			}
			out.ToolCalls++
			if result.Unavailable != nil {
				out.Unavailable++
			}
			c.Transcript = append(c.Transcript, Message{Call: call, Text: result.ForModel(), Outcome: string(result.Outcome())})
		}
	}
	return out, temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("the model had no answer after %d turns", maxTurns), "TooManyTurns", nil)
}

// options are those of an ordinary agent: a generous timeout, and the retries
// that everyone sets.
func (t Ticket) options(startToClose time.Duration) workflow.ActivityOptions {
	speed := t.Speed
	if speed == 0 {
		speed = 1
	}
	scaled := func(d time.Duration) time.Duration { return time.Duration(float64(d) / speed) }
	return workflow.ActivityOptions{
		StartToCloseTimeout: scaled(startToClose),
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval:    scaled(time.Second),
			BackoffCoefficient: 2,
			MaximumAttempts:    4,
		},
	}
}
