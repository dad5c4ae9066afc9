package interceptor

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

const (
	// maxCheckInterval is the longest time between two checks of a parked run, so
	// that an operator's decision takes effect.
	maxCheckInterval = time.Minute
	// lastCheck is how much time a parked run has left at its last check. The server's
	// retry timer is about a second coarse.
	lastCheck = 2 * time.Second
	// otherWorkerInterval is after how long a run checks again that met a worker
	// without its dependency. Workers with different configurations may serve one
	// task queue.
	otherWorkerInterval = time.Second
	// unknownDependency is the type of the error when no worker has the dependency.
	unknownDependency = "UnknownDependency"
)

// awaitRecovery is the activity that parks a run. It completes when the run may go
// on, and asks for a retry while it may not. Between two attempts the run waits in
// a timer of the server, so that any number of runs may be parked and none is lost
// with a worker.
//
// Each run has a fixed place in the ramp, computed from its ID. It goes on when the
// ramp's share reaches its place, at its own moment within that step. So the share
// of parked runs that go on is the share of calls that pass, without a count.
func (p *Plugin) awaitRecovery(ctx context.Context, key breaker.Key) error {
	info := activity.GetInfo(ctx)
	now := p.config.Clock.Now()
	d, ok := p.dependency(key.Dependency)
	if !ok {
		return checkAgainIn(info, now, otherWorkerInterval, unknownDependency, fmt.Sprintf("no dependency %q is configured here", key.Dependency))
	}
	b, ok := p.breakers.Find(key)
	if !ok {
		return nil
	}
	place, moment := draw(info.WorkflowExecution.RunID, info.ActivityID)
	s := b.Snapshot()
	wait := parkedFor(s, d.Breaker, place, moment, now)
	if wait <= 0 {
		return nil
	}
	return checkAgainIn(info, now, wait, toolcall.StillUnavailable, fmt.Sprintf("%s is %v", key, s.State))
}

// checkAgainIn ends a check of a parked run with the request for another one, or for
// good when no time is left.
func checkAgainIn(info activity.Info, now time.Time, wait time.Duration, kind, message string) error {
	o := temporal.ApplicationErrorOptions{Category: temporal.ApplicationErrorCategoryBenign}
	// The server ends an activity at once whose retry delay is longer than the time
	// left.
	left := info.ScheduledTime.Add(info.ScheduleToCloseTimeout).Sub(now)
	switch {
	case info.ScheduleToCloseTimeout <= 0:
		o.NextRetryDelay = max(wait, time.Second)
	case left <= lastCheck:
		o.NonRetryable = true
	default:
		o.NextRetryDelay = max(min(wait, left-lastCheck), time.Second)
	}
	return temporal.NewApplicationErrorWithOptions(message, kind, o)
}

// parkedFor is how long until a parked run checks again; 0 when it may go on. place
// and moment are in [0, 1).
func parkedFor(s breaker.Snapshot, c breaker.Config, place, moment float64, now time.Time) time.Duration {
	if s.Mode != breaker.Enforce {
		return 0
	}
	spread := time.Duration(moment * float64(c.RampStep))
	switch s.State {
	case breaker.Closed, breaker.ForcedClosed:
		return 0
	case breaker.Recovering:
		if 100*place < float64(s.Share) {
			return s.Next.Add(spread - c.RampStep).Sub(now)
		}
	}
	return min(max(s.Next.Sub(now), time.Second)+spread, maxCheckInterval+spread)
}

// draw gives two numbers in [0, 1) that are fixed for one parking of one run.
func draw(runID, activityID string) (place, moment float64) {
	sum := sha256.Sum256([]byte(runID + "/" + activityID))
	number := func(b []byte) float64 { return float64(binary.BigEndian.Uint32(b)) / (1 << 32) }
	return number(sum[:4]), number(sum[4:8])
}
