package demo

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
)

// failedCallTimer is a worker interceptor that measures how long failed calls of the
// carrier's tools hold worker slots.
type failedCallTimer struct {
	interceptor.WorkerInterceptorBase
	mu    sync.Mutex
	calls []failedCall
}

type failedCall struct {
	started  time.Time
	duration time.Duration
}

func (f *failedCallTimer) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &timedActivity{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, timer: f}
}

type timedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	timer *failedCallTimer
}

func (a *timedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	started := time.Now()
	result, err := a.Next.ExecuteActivity(ctx, in)
	switch activity.GetInfo(ctx).ActivityType.Name {
	case carriertools.GetDeliveryStatus, carriertools.GetTrackingEvents, carriertools.CreateReturnLabel:
		if err != nil {
			a.timer.mu.Lock()
			a.timer.calls = append(a.timer.calls, failedCall{started: started, duration: time.Since(started)})
			a.timer.mu.Unlock()
		}
	}
	return result, err
}

// total sums the durations of the failed calls that started from begin to end.
func (f *failedCallTimer) total(begin, end time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var sum time.Duration
	for _, c := range f.calls {
		if !c.started.Before(begin) && c.started.Before(end) {
			sum += c.duration
		}
	}
	return sum
}
