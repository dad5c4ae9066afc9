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
	// ControlTaskQueue is the task queue on which workers with the plugin run the
	// breaker's own workflows and activities, unless they are configured otherwise.
	ControlTaskQueue = "toolbreaker"
	// AwaitRecoveryActivity is the activity type of a run that waits. It takes a
	// breaker.Key and completes when the run may continue.
	AwaitRecoveryActivity = "BreakerAwaitRecovery"
	// StillUnavailable is the type of the error in which the activity ends when its time
	// is over first.
	StillUnavailable = "StillUnavailable"
)

// AwaitRecovery waits until the breaker of a dependency and region lets calls pass
// again, at most for timeout. It returns true at once when there is no outage, and
// false after the timeout. The error is not nil only when the run itself is over, or
// when no worker that ran the activity until the timeout has such a dependency.
//
// Waiting runs continue in step with the ramp: at a step of 10 %, one in ten
// continues, spread over the length of the step. So they do not all call at once, and
// few are refused again. A waiting run uses no worker: it is an activity between two
// attempts. Its next attempt is when the outage's state is due to change, at the
// latest after a minute.
func AwaitRecovery(ctx workflow.Context, dependency, region string, timeout time.Duration) (recovered bool, err error) {
	return AwaitRecoveryOn(ctx, ControlTaskQueue, dependency, region, timeout)
}

// AwaitRecoveryOn is [AwaitRecovery] for workers whose plugin is configured with a
// task queue other than [ControlTaskQueue].
func AwaitRecoveryOn(ctx workflow.Context, taskQueue, dependency, region string, timeout time.Duration) (recovered bool, err error) {
	if timeout <= 0 {
		return false, ctx.Err()
	}
	key := breaker.Key{Dependency: dependency, Region: region}
	waiting := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              taskQueue,
		ScheduleToCloseTimeout: timeout,
		StartToCloseTimeout:    10 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: time.Minute},
		// The breaker's own activities come first, because many runs may wait.
		Priority: temporal.Priority{PriorityKey: 5},
		Summary:  fmt.Sprintf("until %s recovers", key),
	})
	err = workflow.ExecuteActivity(waiting, AwaitRecoveryActivity, key).Get(ctx, nil)
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
		// If the next attempt would be too late, the server ends the activity in its last
		// failure instead of a timeout. A retryable failure ends it in no other way.
		return false, nil
	default:
		return false, err
	}
}
