package probeworkflow

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
)

// pollDeadline bounds one attempt to put a poll on the board.
const pollDeadline = 5 * time.Second

// receive takes every report that has arrived.
func (o *outage) receive(ctx workflow.Context) {
	var r fleet.Report
	changed := false
	for o.signals.ReceiveAsync(&r) {
		if o.reports.Add(r) {
			o.workers[r.Worker] = true
			changed = true
			if until := workflow.Now(ctx).Add(min(r.HoldOff, o.Breaker.MaxCooldown)); r.HoldOff > 0 && until.After(o.heldOff) {
				o.heldOff = until
			}
		}
		r = fleet.Report{}
	}
	if changed {
		workflow.SetCurrentDetails(ctx, o.markdown())
	}
}

// judge applies a rule to every report that has arrived. It receives first, because
// a report may come with the workflow task that ends a wait, and would be lost.
func (o *outage) judge(ctx workflow.Context, rule fleet.Rule, reports func() []fleet.Report) (breaker.Reason, bool) {
	o.receive(ctx)
	return fleet.Judge(rule, reports())
}

// suspected waits until the poll of the fleet is decided.
func (o *outage) suspected(ctx workflow.Context) (reason breaker.Reason, down bool) {
	o.show(ctx, "suspected")
	result, reason := o.pollFleet(ctx)
	return reason, result == fleet.Down && ctx.Err() == nil
}

// pollFleet polls the fleet until the answers decide: [fleet.Down] or
// [fleet.NotDown].
func (o *outage) pollFleet(ctx workflow.Context) (fleet.PollResult, breaker.Reason) {
	poll := o.startPoll(ctx, 0)
	for {
		started := workflow.Now(ctx)
		var result fleet.PollResult
		var reason breaker.Reason
		decided := func() bool {
			o.receive(ctx)
			result, reason = fleet.Decide(o.Breaker, poll, o.reports.All(), workflow.Now(ctx).Sub(started))
			return result != fleet.Undecided
		}
		for _, milestone := range fleet.Milestones(o.Breaker) {
			ok, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
				Timeout:      max(milestone-workflow.Now(ctx).Sub(started), time.Millisecond),
				TimerOptions: workflow.TimerOptions{Summary: "poll of the fleet"},
			}, decided)
			if err != nil {
				return fleet.NotDown, reason
			}
			if ok || decided() {
				break
			}
		}
		switch result {
		case fleet.TooFewCalls:
			poll = o.startPoll(ctx, poll.WiderOneIn(o.reports.All()))
		case fleet.Undecided:
			return fleet.NotDown, reason
		default:
			return result, reason
		}
	}
}

// startPoll puts a poll on the board and returns it as it was put there. oneIn is
// that of [fleet.Poll]; 0: by the fleet's size. If the board is out of reach, the
// reports sent unasked decide.
func (o *outage) startPoll(ctx workflow.Context, oneIn int) fleet.Poll {
	o.verdict.Epoch = o.nextEpoch(ctx)
	poll := fleet.Poll{
		Key: o.Key, Outage: workflow.GetInfo(ctx).WorkflowExecution.ID, Round: o.verdict.Epoch, OneIn: 1,
		Until: workflow.Now(ctx).Add(2 * o.Breaker.Window),
	}
	o.receive(ctx)
	summary := "poll the fleet"
	if oneIn > 0 {
		summary = "poll more of the fleet"
	}
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    pollDeadline,
		ScheduleToCloseTimeout: 2 * pollDeadline,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond},
		Summary:                summary,
	}), pollActivity, pollInput{Poll: poll, OneIn: oneIn, Reported: len(o.reports.All())}).Get(ctx, &poll)
	if err == nil {
		o.fleet = poll.Workers
	}
	return poll
}
