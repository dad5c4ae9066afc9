package agent

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

// AskModel is the activity type in which the first rung of the ladder thinks.
const AskModel = "ask_model"

// Rung is the activity type in which the model at a place of the ladder thinks:
// ask_model, ask_model_2, … Each is a tool of its own dependency, so that each
// model has its own breaker.
func Rung(place int) string {
	if place == 0 {
		return AskModel
	}
	return fmt.Sprintf("%s_%d", AskModel, place+1)
}

// Probe is a conversation that harms nobody and costs next to nothing: what a
// rung is probed with.
func Probe() Conversation {
	return Conversation{Ticket: Ticket{ID: "PROBE", OrderID: "PROBE-0001", Question: "Say that you are there."}}
}

// ladder is the rungs that a run can still ask, best first.
type ladder struct{ rungs []string }

// next asks one rung after another what to do. A rung whose breaker is open costs
// an activity once: then the run's memory answers, until it is worth trying again.
// With nobody left to ask, the turn ends the run with what it has.
func (l *ladder) next(ctx workflow.Context, c Conversation) (Turn, error) {
	var why []string
	for i, rung := range slices.Clone(l.rungs) {
		options := workflow.GetActivityOptions(ctx)
		if i < len(l.rungs)-1 {
			options.RetryPolicy = impatient(options.RetryPolicy)
		}
		r, err := toolcall.Call[Turn]{Tool: rung, Args: []any{c}, Options: &options}.Execute(ctx)
		if err != nil || r.Answered() {
			return r.Value, err
		}
		why = append(why, r.ForModel())
		if r.Outcome() == toolcall.Failed {
			// Its retries are spent; each further turn would spend them again.
			l.rungs = slices.DeleteFunc(l.rungs, func(failed string) bool { return failed == rung })
		}
	}
	return Turn{Answer: unfinished(c, "No model could be asked. "+strings.Join(why, " "))}, nil
}

// impatient waits for no rate limit: the next rung has none, or its own.
func impatient(p *temporal.RetryPolicy) *temporal.RetryPolicy {
	own := *p
	own.NonRetryableErrorTypes = []string{toolcall.DependencyRateLimited, typeTooManyRequests}
	return &own
}
