package interceptor

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// call is one admitted call. It ends once: when it returns, when its attempt's
// deadline passes, or when it is completed elsewhere, whichever comes first.
type call struct {
	dependency *dependency
	info       activity.Info
	clock      breaker.Clock

	mu     sync.Mutex
	permit breaker.Permit
	// unwatch lets go of the attempt's context.
	unwatch func() bool
	ended   bool
	// ending is run once the call has ended.
	ending func()
	// deadline ends a call that is to be completed elsewhere.
	deadline *time.Timer
	// heartbeat is when the tool last recorded one, if it has, or when it began.
	heartbeat time.Duration
	beaten    bool
	// lapsed says that a heartbeat came later than promised.
	lapsed bool
}

// watch ends the call at the attempt's deadline, when the server takes it as
// timed out, and not when a tool that ignores its context comes back.
func (c *call) watch(ctx context.Context) {
	// A context that is done already ends the call before this is over.
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heartbeat = c.clock.Elapsed()
	c.unwatch = context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			c.end(breaker.Failure)
		}
	})
}

// end records the outcome, the first time.
func (c *call) end(outcome breaker.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	c.unwatch()
	c.permit.Done(outcome)
	if c.ending != nil {
		c.ending()
	}
	if c.deadline != nil {
		c.deadline.Stop()
	}
}

// beat notes a heartbeat.
func (c *call) beat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Elapsed()
	c.lapsed = c.lapsed || now-c.heartbeat > c.info.HeartbeatTimeout
	c.heartbeat, c.beaten = now, true
}

// silent tells whether the tool has recorded no heartbeat for longer than it
// promised, so that the server took the attempt as timed out, however the tool
// ended. cancelled says that the attempt's context was: that is how the SDK passes
// it on.
func (c *call) silent(cancelled bool) bool {
	limit := c.info.HeartbeatTimeout
	if limit <= 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	silence := c.clock.Elapsed() - c.heartbeat
	if cancelled {
		return c.lapsed || silence > limit
	}
	if c.beaten {
		// The SDK holds a heartbeat back for up to 80 % of the timeout, so the server
		// may have heard the last one that much later.
		limit *= 2
	}
	return silence > limit
}

type callKey struct{}

// callOf gives the call that the plugin has admitted in this context, nil for
// an activity that is not guarded.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// heartbeats notes what a tool reports.
type heartbeats struct {
	interceptor.ActivityOutboundInterceptorBase
}

func (h *heartbeats) RecordHeartbeat(ctx context.Context, details ...any) {
	if c := callOf(ctx); c != nil {
		c.beat()
	}
	h.Next.RecordHeartbeat(ctx, details...)
}
