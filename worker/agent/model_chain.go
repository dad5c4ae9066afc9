package agent

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

// AskModel is the activity type of the first model.
const AskModel = "ask_model"

// ModelActivity is the activity type of the model at index i: ask_model,
// ask_model_2, and so on. Each type is a tool of its own dependency, so each model
// has its own breaker.
func ModelActivity(i int) string {
	if i == 0 {
		return AskModel
	}
	return fmt.Sprintf("%s_%d", AskModel, i+1)
}

// Probe is the conversation that a model is probed with. It offers no tools.
func Probe() Conversation {
	return Conversation{Ticket: Ticket{ID: "PROBE", OrderID: "PROBE-0001", Question: "Reply with OK."}}
}

// modelChain holds the activity types of the models that a run can still ask, best
// first.
type modelChain struct{ activities []string }

// next asks the models in order until one answers. A model whose breaker is open
// costs one activity; then the run remembers it until the retry time. If no model
// answers, the turn ends the run with a partial answer.
func (m *modelChain) next(ctx workflow.Context, c Conversation) (Turn, error) {
	var reasons []string
	for i, activity := range slices.Clone(m.activities) {
		options := workflow.GetActivityOptions(ctx)
		if i < len(m.activities)-1 {
			options.RetryPolicy = withoutRateLimitRetries(options.RetryPolicy)
		}
		r, err := toolcall.Call[Turn]{Tool: activity, Args: []any{c}, Options: &options}.Execute(ctx)
		if err != nil || r.Answered() {
			return r.Value, err
		}
		reasons = append(reasons, r.ForModel())
		if r.Outcome() == toolcall.Failed {
			// Its retries are used up. Each further turn would use them again.
			m.activities = slices.DeleteFunc(m.activities, func(a string) bool { return a == activity })
		}
	}
	return Turn{Answer: partialAnswer(c, "No model was available. "+strings.Join(reasons, " "))}, nil
}

// withoutRateLimitRetries returns a policy that does not retry a rate-limited call,
// because the next model may answer at once.
func withoutRateLimitRetries(p *temporal.RetryPolicy) *temporal.RetryPolicy {
	policy := *p
	policy.NonRetryableErrorTypes = []string{toolcall.DependencyRateLimited, typeTooManyRequests}
	return &policy
}
