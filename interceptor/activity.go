package interceptor

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// workerInterceptor makes one chain for each activity task; all state lives in
// the plugin.
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
	b := a.plugin.breaker(tool.dependency, in.Args)
	permit, refusal := b.Allow(tool.call(info))
	if refusal != nil {
		return tool.refuse(toolcall.NewUnavailable(toolcall.About{Tool: name, Tools: tool.dependency.Tools}, *refusal, a.plugin.config.Clock.Now()))
	}
	// A panic, or a Goexit, hands the permit back as well; the SDK recovers it.
	outcome := breaker.Failure
	if tool.dependency.Breaker.IgnorePanics {
		outcome = breaker.Ignored
	}
	defer func() { permit.Done(outcome) }()
	result, err := a.Next.ExecuteActivity(ctx, in)
	outcome = tool.dependency.classify(ctx, result, err)
	if wait := retryAfter(err); wait > 0 {
		b.HoldOff(wait)
	}
	return result, err
}

// probe runs a synthetic call: no admission, no sample; its end is the probe
// workflow's to judge. The latency threshold is its deadline.
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
		// A customer's call that is told "no" shows a healthy dependency. A synthetic
		// one is made to succeed: told "no", its arguments or its credentials are
		// wrong, and it may never have reached what it is to exercise.
		return nil, probeError(probeworkflow.ProbeFailed, "refused")
	}
	// The answer itself is nobody's; it stays out of the history.
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
	// typed: its result is a toolcall.Result, so a refusal fits in as a value. In
	// any other struct a refusal would silently decode into an empty answer.
	typed atomic.Bool
}

// call is what admission needs to know. Naming a tool that has no threshold of
// its own would only cost the lookup.
func (t *tool) call(info activity.Info) breaker.Call {
	c := breaker.Call{Attempt: int(info.Attempt)}
	if _, own := t.dependency.Breaker.ToolLatency[t.name]; own {
		c.Tool = t.name
	}
	return c
}

// refuse ends a call that was not admitted. The error is the outermost one:
// wrapped, the server would take it for retryable.
func (t *tool) refuse(u toolcall.Unavailable) (any, error) {
	if t.typed.Load() {
		return toolcall.Result[json.RawMessage]{Unavailable: &u}, nil
	}
	return nil, temporal.NewApplicationErrorWithOptions(u.Message, toolcall.DependencyUnavailable,
		temporal.ApplicationErrorOptions{
			NonRetryable: true,
			Category:     temporal.ApplicationErrorCategoryBenign,
			Details:      []any{u},
		})
}
