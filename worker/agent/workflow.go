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
	// maxTurns bounds the turns of a run.
	maxTurns = 20
)

// Ticket is a customer's question about an order.
type Ticket struct {
	ID      string `json:"id"`
	OrderID string `json:"order_id"`
	// Question is what the customer wrote.
	Question string `json:"question"`
	// Return requests a return label as well.
	Return bool `json:"return,omitempty"`
	// Speed divides every timeout and backoff of the run. Zero means 1.
	Speed float64 `json:"speed,omitempty"`
}

// Outcome is the result of a run.
type Outcome struct {
	Answer
	// ToolCalls counts the model's tool calls, without retries.
	ToolCalls int `json:"tool_calls"`
	// Unavailable counts the tool calls that an open breaker refused.
	Unavailable int `json:"unavailable"`
	// Seconds is the duration of the run.
	Seconds float64 `json:"seconds"`
}

// Register registers the agent on a worker. Each turn asks the first model that is
// available.
func Register(r worker.Registry, models ...Model) {
	var activities []string
	for i, model := range models {
		activities = append(activities, ModelActivity(i))
		r.RegisterActivityWithOptions(model.Next, activity.RegisterOptions{Name: ModelActivity(i)})
	}
	r.RegisterWorkflowWithOptions(func(ctx workflow.Context, t Ticket) (Outcome, error) {
		return supportTicket(ctx, t, activities)
	}, workflow.RegisterOptions{Name: WorkflowType})
}

// supportTicket works on one ticket until a model has an answer, no model is
// available, or maxTurns is reached.
func supportTicket(ctx workflow.Context, t Ticket, activities []string) (Outcome, error) {
	started := workflow.Now(ctx)
	var models modelChain
	// The models are configuration. A run keeps the ones that it started with.
	recorded := workflow.SideEffect(ctx, func(workflow.Context) any { return activities })
	if err := recorded.Get(&models.activities); err != nil {
		return Outcome{}, err
	}
	// Separate runs of toolcall: a model must not call the model activities as tools.
	modelCtx := toolcall.WithRun(workflow.WithActivityOptions(ctx, t.options(time.Minute)), toolcall.Run{Tools: models.activities})
	toolCtx := toolcall.WithRun(workflow.WithActivityOptions(ctx, t.options(35*time.Second)), toolcall.Run{Tools: Tools(), Region: Region})

	c := Conversation{Ticket: t}
	answer, err := runTurns(modelCtx, toolCtx, &models, &c)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{
		Answer: *answer, ToolCalls: len(c.Transcript), Unavailable: c.count(toolcall.Refused),
		Seconds: workflow.Now(ctx).Sub(started).Seconds(),
	}, nil
}

func runTurns(modelCtx, toolCtx workflow.Context, models *modelChain, c *Conversation) (*Answer, error) {
	results := resultCache{}
	for range maxTurns {
		c.Tools = toolcall.AvailableTools(toolCtx)
		turn, err := models.next(modelCtx, *c)
		if err != nil || turn.Answer != nil {
			return turn.Answer, err
		}
		messages, err := results.execute(toolCtx, turn.Calls)
		if err != nil {
			return nil, err
		}
		c.Transcript = append(c.Transcript, messages...)
	}
	return partialAnswer(*c, fmt.Sprintf("The model had no answer after %d turns.", maxTurns)), nil
}

// options are the activity options of a typical agent.
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
