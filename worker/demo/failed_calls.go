package demo

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
)

// meter measures how long the carrier's tools hold worker slots for calls that
// fail in the end.
type meter struct {
	interceptor.WorkerInterceptorBase
	mu    sync.Mutex
	waits []wait
}

type wait struct {
	began time.Time
	took  time.Duration
}

func (m *meter) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &meteredActivity{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, meter: m}
}

type meteredActivity struct {
	interceptor.ActivityInboundInterceptorBase
	meter *meter
}

func (a *meteredActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	began := time.Now()
	result, err := a.Next.ExecuteActivity(ctx, in)
	switch activity.GetInfo(ctx).ActivityType.Name {
	case carriertools.GetDeliveryStatus, carriertools.GetTrackingEvents, carriertools.CreateReturnLabel:
		if err != nil {
			a.meter.mu.Lock()
			a.meter.waits = append(a.meter.waits, wait{began: began, took: time.Since(began)})
			a.meter.mu.Unlock()
		}
	}
	return result, err
}

// wasted sums the failed calls begun from begin to end.
func (m *meter) wasted(begin, end time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum time.Duration
	for _, w := range m.waits {
		if !w.began.Before(begin) && w.began.Before(end) {
			sum += w.took
		}
	}
	return sum
}
