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
	// lookAgain is how long a parked run goes without a look at the breaker, so that
	// an operator's word is heard.
	lookAgain = time.Minute
	// lastLook is what is left of a parked run's time at its last look: the server's
	// retry timer is about a second coarse.
	lastLook = 2 * time.Second
	// elsewhere is how long until a run looks again that met a worker without its
	// dependency: workers of several configurations may serve one task queue.
	elsewhere = time.Second
	// unknownDependency is the type of the error when none of them had it.
	unknownDependency = "UnknownDependency"
)

// awaitRecovery is the activity by which a run is parked: it ends when the run
// may go on, and asks for another attempt while it may not. Between two attempts
// it is a timer of the server's, so that any number of runs may be parked and none
// is lost with a worker.
//
// Each run has a place in the ramp, drawn from its ID: a run goes on when the
// share of calls that pass has reached its place, and at its own moment within
// that step. So as many of the parked runs go on as calls pass, without anyone
// counting them.
func (p *Plugin) awaitRecovery(ctx context.Context, key breaker.Key) error {
	info := activity.GetInfo(ctx)
	now := p.config.Clock.Now()
	d, ok := p.dependency(key.Dependency)
	if !ok {
		return lookAgainIn(info, now, elsewhere, unknownDependency, fmt.Sprintf("no dependency %q is configured here", key.Dependency))
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
	return lookAgainIn(info, now, wait, toolcall.StillUnavailable, fmt.Sprintf("%s is %v", key, s.State))
}

// lookAgainIn ends a look of a parked run: with the request for another one, or,
// when there is no time for that, for good.
func lookAgainIn(info activity.Info, now time.Time, wait time.Duration, kind, said string) error {
	o := temporal.ApplicationErrorOptions{Category: temporal.ApplicationErrorCategoryBenign}
	// A delay past what is left would end the activity now.
	left := info.ScheduledTime.Add(info.ScheduleToCloseTimeout).Sub(now)
	switch {
	case info.ScheduleToCloseTimeout <= 0:
		o.NextRetryDelay = max(wait, time.Second)
	case left <= lastLook:
		o.NonRetryable = true
	default:
		o.NextRetryDelay = max(min(wait, left-lastLook), time.Second)
	}
	return temporal.NewApplicationErrorWithOptions(said, kind, o)
}

// parkedFor is how long until a parked run should look again; 0 when it may go
// on. place and moment lie in [0, 1).
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
	return min(max(s.Next.Sub(now), time.Second)+spread, lookAgain+spread)
}

// draw gives two numbers in [0, 1) that stay the same for one parking of one run.
func draw(runID, activityID string) (place, moment float64) {
	sum := sha256.Sum256([]byte(runID + "/" + activityID))
	number := func(b []byte) float64 { return float64(binary.BigEndian.Uint32(b)) / (1 << 32) }
	return number(sum[:4]), number(sum[4:8])
}
