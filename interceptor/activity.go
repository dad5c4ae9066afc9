package interceptor

import (
	"context"
	"sync/atomic"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// workerInterceptor makes one interceptor for each activity task. The plugin has all
// state.
type workerInterceptor struct {
	interceptor.WorkerInterceptorBase
	plugin *Plugin
}

func (w *workerInterceptor) InterceptActivity(ctx context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activityInterceptor{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, plugin: w.plugin}
}

type activityInterceptor struct {
	interceptor.ActivityInboundInterceptorBase
	plugin *Plugin
}

func (a *activityInterceptor) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	return a.Next.Init(&heartbeats{interceptor.ActivityOutboundInterceptorBase{Next: outbound}})
}

func (a *activityInterceptor) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	name := info.ActivityType.Name
	if info.WorkflowType != nil && info.WorkflowType.Name == probeworkflow.ProbeWorkflow {
		if d, ok := a.plugin.probes[name]; ok {
			return a.probe(ctx, d, name, in)
		}
	}
	tool, ok := a.plugin.tools[name]
	if !ok {
		return a.Next.ExecuteActivity(ctx, in)
	}
	if callOf(ctx) != nil {
		a.plugin.warnTwice.Do(func() {
			a.plugin.config.Logger.Warn("The breaker's plugin was given to a worker more than once. Each call is still guarded once.")
		})
		return a.Next.ExecuteActivity(ctx, in)
	}
	return a.plugin.execute(ctx, tool, info, in, a.Next)
}

// execute gets a permit from the breaker, calls the tool, and records the outcome.
func (p *Plugin) execute(ctx context.Context, t *tool, info activity.Info, in *interceptor.ExecuteActivityInput, next interceptor.ActivityInboundInterceptor) (any, error) {
	d := t.dependency
	b := p.breaker(d, in.Args)
	c := &call{dependency: d, info: info, clock: p.config.Clock}
	var refusal *breaker.Refusal
	if c.permit, refusal = b.Allow(p.admission(t, info)); refusal != nil {
		return p.refuse(t, info, *refusal)
	}
	if d.WhenOpen == Wait {
		p.executed.add(executionOf(info))
	}
	ctx = context.WithValue(ctx, callKey{}, c)
	c.watch(ctx)
	p.pending.add(c)
	// The permit is also returned after a panic, from which the SDK recovers, or a Goexit.
	outcome := breaker.Failure
	if d.Breaker.IgnorePanics {
		outcome = breaker.Ignored
	}
	async := false
	defer func() {
		if !async {
			c.end(outcome)
		}
	}()
	result, err := next.ExecuteActivity(ctx, in)
	// The SDK compares by identity too, so a wrapped one is like any other error.
	if err == activity.ErrResultPending {
		async = true
		p.pending.await(c)
		return result, err
	}
	outcome = d.classify(ctx, result, err)
	if c.missedHeartbeat(outcome == breaker.Ignored && ctx.Err() != nil) {
		outcome = breaker.Failure
	}
	if outcome == breaker.Success {
		p.refusals.clear(runOf(info, b.Key()))
	}
	if wait := retryAfter(err); wait > 0 {
		b.HoldOff(wait)
	}
	return result, asRateLimit(t.name, err, p.config.Clock.Now())
}

// admission describes a call to the breaker. It names the tool only if that has its own
// latency threshold, which saves a lookup.
func (p *Plugin) admission(t *tool, info activity.Info) breaker.Call {
	d := t.dependency
	c := breaker.Call{Attempt: int(info.Attempt)}
	if _, own := d.Breaker.ToolLatency[t.name]; own {
		c.Tool = t.name
	}
	if d.WhenOpen == Wait {
		// Each wait uses an attempt, so the attempt is not the number of calls.
		c.Attempt = p.executed.count(executionOf(info)) + 1
	}
	return c
}

// probe makes a synthetic call. The call needs no permit and is no sample, because the
// probe workflow evaluates it. Its deadline is the latency threshold.
func (a *activityInterceptor) probe(ctx context.Context, d *dependency, name string, in *interceptor.ExecuteActivityInput) (any, error) {
	limit := d.Breaker.LatencyOf(name)
	clock := a.plugin.config.Clock
	begun := clock.Elapsed()
	callCtx, cancel := context.WithTimeout(breaker.WithProbe(ctx), limit)
	defer cancel()
	result, err := a.Next.ExecuteActivity(callCtx, in)
	if ctx.Err() == nil && clock.Elapsed()-begun > limit {
		return nil, probeError(probeworkflow.ProbeFailed, "slower than the latency threshold")
	}
	switch outcome := d.classify(ctx, result, err); {
	case outcome == breaker.Ignored:
		return nil, probeError(probeworkflow.ProbeIgnored, "outcome ignored")
	case outcome == breaker.Failure:
		return nil, probeError(probeworkflow.ProbeFailed, "failed")
	case err != nil:
		// For a customer's call a business error shows a healthy dependency. A synthetic call
		// must succeed, because with wrong arguments or credentials it may not reach what it
		// should test.
		return nil, probeError(probeworkflow.ProbeFailed, "rejected")
	}
	// The answer is not needed, so it is kept out of the history.
	return nil, nil
}

func probeError(kind, message string) error {
	return temporal.NewApplicationErrorWithOptions(message, kind, temporal.ApplicationErrorOptions{
		NonRetryable: true, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// tool is one guarded activity type.
type tool struct {
	name       string
	dependency *dependency
	// typed: the result type is toolcall.Result, so a refusal can be returned as a value.
	// Any other struct would decode that value to an empty answer.
	typed atomic.Bool
}
