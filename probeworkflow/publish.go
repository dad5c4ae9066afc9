package probeworkflow

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
)

// publishDeadline bounds how long the end of an outage waits for the last verdict
// to be published.
const publishDeadline = 10 * time.Second

// enter moves to the state of v, which is planned to end after d, and publishes
// it.
func (o *outage) enter(ctx workflow.Context, v breaker.Verdict, d time.Duration) workflow.Future {
	now := workflow.Now(ctx)
	o.leave(now)
	v.Epoch, v.Since, v.Outage = o.nextEpoch(ctx), o.verdict.Since, workflow.GetInfo(ctx).WorkflowExecution.ID
	if d > 0 {
		v.Next = now.Add(d)
	}
	o.verdict, o.entered = v, now
	o.show(ctx, v.State.String())
	e := fleet.Entry{Key: o.Key, Verdict: v}
	if v.State == breaker.Recovering {
		e.OneIn = fleet.OneIn(o.fleet)
	}
	return o.publish(ctx, e)
}

// publish sends the board an entry.
func (o *outage) publish(ctx workflow.Context, e fleet.Entry) workflow.Future {
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    5 * time.Second,
		ScheduleToCloseTimeout: time.Minute,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumInterval: 5 * time.Second},
		Summary:                e.Verdict.State.String(),
	}), publishActivity, e)
}

// publishDismissed publishes that the dependency is not down, and which workers are
// outliers.
func (o *outage) publishDismissed(ctx workflow.Context) {
	if ctx.Err() != nil {
		return
	}
	o.verdict = breaker.Verdict{State: breaker.Closed, Epoch: o.nextEpoch(ctx), Outage: workflow.GetInfo(ctx).WorkflowExecution.ID}
	published := o.publish(ctx, fleet.Entry{
		Key: o.Key, Verdict: o.verdict, Dismissed: true, Outliers: fleet.Outliers(o.Breaker, o.reports.All()),
	})
	_, _ = workflow.AwaitWithTimeout(ctx, publishDeadline, published.IsReady)
}

// publishCancelled closes the key of a cancelled outage. Otherwise its last verdict
// would stay on the board, and starting workers would apply it.
func (o *outage) publishCancelled(ctx workflow.Context) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	published := o.enter(ctx, breaker.Verdict{State: breaker.Closed}, 0)
	_, _ = workflow.AwaitWithTimeout(ctx, publishDeadline, published.IsReady)
}

// nextEpoch returns the time in milliseconds, or one more than the last epoch. So
// it grows over all outages of a key, also after a terminated one.
func (o *outage) nextEpoch(ctx workflow.Context) int64 {
	return max(o.verdict.Epoch+1, workflow.Now(ctx).UnixMilli())
}

// show sets the search attributes and current details for the Temporal UI.
func (o *outage) show(ctx workflow.Context, state string) {
	o.name = state
	workflow.SetCurrentDetails(ctx, o.markdown())
	if o.searchable {
		// The only possible error is an empty set of attributes.
		_ = workflow.UpsertTypedSearchAttributes(ctx,
			temporal.NewSearchAttributeKeyKeyword(SearchDependency).ValueSet(o.Key.Dependency),
			temporal.NewSearchAttributeKeyKeyword(SearchRegion).ValueSet(o.Key.Region),
			temporal.NewSearchAttributeKeyKeyword(SearchState).ValueSet(state))
	}
}

// findSearchAttributes checks once that the namespace has the search attributes.
// Setting one that it lacks would fail the workflow task.
func (o *outage) findSearchAttributes(ctx workflow.Context) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 10 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                "check the search attributes",
	})
	err := workflow.ExecuteActivity(ctx, searchAttributesActivity).Get(ctx, &o.searchable)
	if err == nil && o.searchable {
		o.show(ctx, o.name)
	}
}
