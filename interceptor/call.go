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

// call is one admitted call. It ends once: when it returns, at its attempt's deadline, or
// when it is completed asynchronously, whichever is first.
type call struct {
	dependency *dependency
	info       activity.Info
	clock      breaker.Clock

	mu     sync.Mutex
	permit breaker.Permit
	// stopWatching releases the attempt's context.
	stopWatching func() bool
	ended        bool
	// ending is called when the call has ended.
	ending func()
	// deadline ends a call that is completed asynchronously.
	deadline *time.Timer
	// heartbeat is when the tool last recorded one, or when it began. beaten: it has
	// recorded one.
	heartbeat time.Duration
	beaten    bool
	// late: a heartbeat came after HeartbeatTimeout.
	late bool
}

// watch ends the call at the attempt's deadline, when the server times it out. A tool that
// ignores its context may return later.
func (c *call) watch(ctx context.Context) {
	// If the context is already done, the call ends after this function.
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heartbeat = c.clock.Elapsed()
	c.stopWatching = context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			c.end(breaker.Failure)
		}
	})
}

// end records the outcome of the first call of end.
func (c *call) end(outcome breaker.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	c.stopWatching()
	c.permit.Done(outcome)
	if c.ending != nil {
		c.ending()
	}
	if c.deadline != nil {
		c.deadline.Stop()
	}
}

// beat records a heartbeat.
func (c *call) beat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Elapsed()
	c.late = c.late || now-c.heartbeat > c.info.HeartbeatTimeout
	c.heartbeat, c.beaten = now, true
}

// missedHeartbeat reports whether the tool exceeded its heartbeat timeout, so that the
// server timed the attempt out. cancelled: the attempt's context was cancelled, which is
// how the SDK reports that.
func (c *call) missedHeartbeat(cancelled bool) bool {
	limit := c.info.HeartbeatTimeout
	if limit <= 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	silence := c.clock.Elapsed() - c.heartbeat
	if cancelled {
		return c.late || silence > limit
	}
	if c.beaten {
		// The SDK may delay a heartbeat by up to 80 % of the timeout, so the server may have
		// received the last one that much later.
		limit *= 2
	}
	return silence > limit
}

type callKey struct{}

// callOf returns the call that the plugin has admitted in this context, nil for an
// activity that is not guarded.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// heartbeats records the heartbeats of a tool.
type heartbeats struct {
	interceptor.ActivityOutboundInterceptorBase
}

func (h *heartbeats) RecordHeartbeat(ctx context.Context, details ...any) {
	if c := callOf(ctx); c != nil {
		c.beat()
	}
	h.Next.RecordHeartbeat(ctx, details...)
}
