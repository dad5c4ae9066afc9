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
	// maxCheckInterval is the longest time between two checks of a waiting run, so that an
	// operator's decision takes effect.
	maxCheckInterval = time.Minute
	// lastCheck is the time that is left at the last check of a waiting run. The server's
	// retry timer has a precision of about a second.
	lastCheck = 2 * time.Second
	// otherWorkerInterval is the time to the next check after one on a worker without the
	// dependency. Workers with different configurations may share a task queue.
	otherWorkerInterval = time.Second
	// unknownDependency is the error type of a check on a worker without the dependency.
	unknownDependency = "UnknownDependency"
)

// awaitRecovery is the activity of a run that waits. It completes when the run may
// continue, and asks for a retry otherwise. Between two attempts the run waits in a timer
// of the server. So any number of runs can wait, and none is lost with a worker.
//
// Each run has a fixed place in the ramp, computed from its ID. It continues in the step
// whose share reaches its place, at a fixed moment within that step. So the share of
// waiting runs that continue is the share of calls that pass.
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
	place, moment := rampPlace(info.WorkflowExecution.RunID, info.ActivityID)
	s := b.Snapshot()
	wait := nextCheck(s, d.Breaker, place, moment, now)
	if wait <= 0 {
		return nil
	}
	return checkAgainIn(info, now, wait, toolcall.StillUnavailable, fmt.Sprintf("%s is %v", key, s.State))
}

// checkAgainIn ends a check with a request for another one, or finally if no time is left.
func checkAgainIn(info activity.Info, now time.Time, wait time.Duration, kind, message string) error {
	o := temporal.ApplicationErrorOptions{Category: temporal.ApplicationErrorCategoryBenign}
	// The server ends an activity at once if its retry delay is longer than the time left.
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

// nextCheck returns the time until a waiting run checks again, 0 if it may continue. place
// and moment are in [0, 1).
func nextCheck(s breaker.Snapshot, c breaker.Config, place, moment float64, now time.Time) time.Duration {
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

// rampPlace returns two numbers in [0, 1) that are fixed for one wait of one run.
func rampPlace(runID, activityID string) (place, moment float64) {
	sum := sha256.Sum256([]byte(runID + "/" + activityID))
	number := func(b []byte) float64 { return float64(binary.BigEndian.Uint32(b)) / (1 << 32) }
	return number(sum[:4]), number(sum[4:8])
}
