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

// workerInterceptor makes one chain for each activity task. All state is in the
// plugin.
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

// execute asks the breaker for a permit, calls the tool, and records its outcome.
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
	// A panic or a Goexit also returns the permit. The SDK recovers from it.
	outcome := breaker.Failure
	if d.Breaker.IgnorePanics {
		outcome = breaker.Ignored
	}
	elsewhere := false
	defer func() {
		if !elsewhere {
			c.end(outcome)
		}
	}()
	result, err := next.ExecuteActivity(ctx, in)
	// The SDK compares by identity too: a wrapped one is an error like any other.
	if err == activity.ErrResultPending {
		elsewhere = true
		p.pending.await(c)
		return result, err
	}
	outcome = d.classify(ctx, result, err)
	if c.silent(outcome == breaker.Ignored && ctx.Err() != nil) {
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

// admission describes a call to the breaker. A tool without a threshold of its own
// is not named, which saves the lookup.
func (p *Plugin) admission(t *tool, info activity.Info) breaker.Call {
	d := t.dependency
	c := breaker.Call{Attempt: int(info.Attempt)}
	if _, own := d.Breaker.ToolLatency[t.name]; own {
		c.Tool = t.name
	}
	if d.WhenOpen == Wait {
		// Waiting uses up attempts, so the attempt is not the number of calls.
		c.Attempt = p.executed.count(executionOf(info)) + 1
	}
	return c
}

// probe runs a synthetic call. It needs no permit and leaves no sample: the probe
// workflow judges it. The latency threshold is its deadline.
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
		return nil, probeError(probeworkflow.ProbeIgnored, "says nothing about the dependency")
	case outcome == breaker.Failure:
		return nil, probeError(probeworkflow.ProbeFailed, "failed")
	case err != nil:
		// A customer's call that gets a business error shows a healthy dependency. A
		// synthetic one must succeed: with wrong arguments or credentials it may not
		// reach what it should test.
		return nil, probeError(probeworkflow.ProbeFailed, "refused")
	}
	// Nobody needs the answer, so it stays out of the history.
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
	// typed: its result is a toolcall.Result, so a refusal can be returned as a
	// value. Any other struct would decode it into an empty answer.
	typed atomic.Bool
}
