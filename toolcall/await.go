package toolcall

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
)

const (
	// ControlTaskQueue is where every worker with the plugin serves the breaker's
	// own workflows and activities, unless it is configured otherwise.
	ControlTaskQueue = "toolbreaker"
	// AwaitRecoveryActivity is the activity type that parks a run. It takes a
	// breaker.Key, and ends when the run may go on.
	AwaitRecoveryActivity = "BreakerAwaitRecovery"
	// StillUnavailable is the type of the error by which it ends when its time is
	// over first.
	StillUnavailable = "StillUnavailable"
)

// AwaitRecovery parks the run until traffic to a dependency returns, or until
// the timeout. It returns at once when there is no outage. It tells whether the
// dependency can be had now; the error is not nil only when the run itself is over,
// or when no worker that it met until the timeout has such a dependency.
//
// Parked runs go on in step with the ramp: at a step of 10 % one in ten does,
// spread over the step's length, so that nobody is woken just to be refused, and
// never all at once. A parked run costs nothing while it waits: it is an activity
// between two attempts, looking again when the outage's state is due to change and
// at the latest after a minute.
func AwaitRecovery(ctx workflow.Context, dependency, region string, timeout time.Duration) (recovered bool, err error) {
	return AwaitRecoveryOn(ctx, ControlTaskQueue, dependency, region, timeout)
}

// AwaitRecoveryOn is [AwaitRecovery] for workers whose plugin is configured with
// another task queue than [ControlTaskQueue].
func AwaitRecoveryOn(ctx workflow.Context, taskQueue, dependency, region string, timeout time.Duration) (recovered bool, err error) {
	if timeout <= 0 {
		return false, ctx.Err()
	}
	key := breaker.Key{Dependency: dependency, Region: region}
	parked := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              taskQueue,
		ScheduleToCloseTimeout: timeout,
		StartToCloseTimeout:    10 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute},
		// After the breaker's own work: many runs may be parked.
		Priority: temporal.Priority{PriorityKey: 5},
		Summary:  fmt.Sprintf("until %s recovers", key),
	})
	err = workflow.ExecuteActivity(parked, AwaitRecoveryActivity, key).Get(ctx, nil)
	var app *temporal.ApplicationError
	var late *temporal.TimeoutError
	switch {
	case err == nil:
		if m := memoryOf(ctx); m != nil {
			m.forget(key)
		}
		return true, nil
	case ctx.Err() != nil:
		return false, err
	case errors.As(err, &app) && (app.Type() == StillUnavailable || !app.NonRetryable()), errors.As(err, &late):
		// Where the next attempt would come too late, the server ends the activity in
		// its last failure rather than in a timeout; nothing else ends a retryable one.
		return false, nil
	default:
		return false, err
	}
}
