package agent

import (
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

// Register puts the agent on a worker, thinking with the first of models that
// can be asked.
func Register(r worker.Registry, models ...Model) {
	var rungs []string
	for i, model := range models {
		rungs = append(rungs, Rung(i))
		r.RegisterActivityWithOptions(model.Next, activity.RegisterOptions{Name: Rung(i)})
	}
	r.RegisterWorkflowWithOptions(func(ctx workflow.Context, t Ticket) (Outcome, error) {
		return supportTicket(ctx, t, rungs)
	}, workflow.RegisterOptions{Name: WorkflowType})
}

// supportTicket works on one ticket until a model has an answer, or there is
// no point in asking on.
func supportTicket(ctx workflow.Context, t Ticket, rungs []string) (Outcome, error) {
	begun := workflow.Now(ctx)
	var models ladder
	// The rungs are configuration: a run keeps those that it began with.
	kept := workflow.SideEffect(ctx, func(workflow.Context) any { return rungs })
	if err := kept.Get(&models.rungs); err != nil {
		return Outcome{}, err
	}
	// A model is no tool that a model may call: each has a memory of its own.
	modelCtx := toolcall.WithRun(workflow.WithActivityOptions(ctx, t.options(time.Minute)), toolcall.Run{Tools: models.rungs})
	toolCtx := toolcall.WithRun(workflow.WithActivityOptions(ctx, t.options(35*time.Second)), toolcall.Run{Tools: Tools(), Region: Region})

	c := Conversation{Ticket: t}
	answer, err := converse(modelCtx, toolCtx, &models, &c)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{
		Answer: *answer, ToolCalls: len(c.Transcript), Unavailable: c.count(toolcall.Refused),
		Seconds: workflow.Now(ctx).Sub(begun).Seconds(),
	}, nil
}

func converse(modelCtx, toolCtx workflow.Context, models *ladder, c *Conversation) (*Answer, error) {
	tools := toolbox{}
	for range maxTurns {
		c.Tools = toolcall.OnOffer(toolCtx)
		turn, err := models.next(modelCtx, *c)
		if err != nil || turn.Answer != nil {
			return turn.Answer, err
		}
		said, err := tools.call(toolCtx, turn.Calls)
		if err != nil {
			return nil, err
		}
		c.Transcript = append(c.Transcript, said...)
	}
	return unfinished(*c, fmt.Sprintf("The model had no answer after %d turns.", maxTurns)), nil
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
