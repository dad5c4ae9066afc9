// Package interceptortest tests agents behind the circuit breaker without a
// server, in the SDK's test environments:
//
//	guard := interceptortest.New(t, config)
//	env.SetWorkerOptions(guard.Options())
//	env.RegisterActivityWithOptions(fakeStatus, activity.RegisterOptions{Name: "get_delivery_status"})
//	guard.Open("carrier-api", "eu-west")
//	env.ExecuteWorkflow(SupportTicket, ticket)
//
// Register a function for a tool, or mock it with a function
// (env.OnActivity(…).Return(func …)). A mock that returns plain values skips every
// interceptor, the breaker as well: a test in which the breaker saw no call at all
// fails.
package interceptortest

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	sdkinterceptor "go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
)

// Guard is the breaker's plugin in a test environment: it decides by itself, with
// no fleet and no workflows of its own.
type Guard struct {
	t      testing.TB
	plugin *interceptor.Plugin

	mu    sync.Mutex
	calls map[string]int
	epoch int64
}

// New makes a guard for one environment. When the test ends and no call of a
// guarded tool has come by, it fails the test.
func New(t testing.TB, config interceptor.Config) *Guard {
	t.Helper()
	plugin, err := interceptor.NewPlugin(nil, config)
	if err != nil {
		t.Fatal(err)
	}
	g := &Guard{t: t, plugin: plugin, calls: map[string]int{}}
	for _, d := range config.Dependencies {
		for _, tool := range d.Tools {
			g.calls[tool] = 0
		}
	}
	t.Cleanup(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, n := range g.calls {
			if n > 0 {
				return
			}
		}
		t.Error("the breaker saw no call of a guarded tool: give the environment Guard.Options(), and mock tools by functions, not by values")
	})
	return g
}

// Options are for SetWorkerOptions of the environment. Add to them what the
// workers have besides.
func (g *Guard) Options() worker.Options {
	return worker.Options{
		Plugins:      []worker.Plugin{unstarted{plugin: g.plugin}},
		Interceptors: []sdkinterceptor.WorkerInterceptor{&counter{guard: g}},
	}
}

// Open opens a breaker, as a verdict of a fleet does, for a cooldown of 30 s.
func (g *Guard) Open(dependency, region string) {
	g.t.Helper()
	now := time.Now()
	g.apply(dependency, region, breaker.Verdict{
		State: breaker.Open, Since: now, Next: now.Add(30 * time.Second),
		Reason: breaker.Reason{
			Rule: breaker.RuleFailureRate, Counts: breaker.Counts{Samples: 20, Failures: 20},
			Horizon: 10 * time.Second, FailureRate: 0.5,
		},
		Outage: "outage/" + dependency + "/" + region,
	})
}

// Close closes a breaker.
func (g *Guard) Close(dependency, region string) {
	g.t.Helper()
	g.apply(dependency, region, breaker.Verdict{State: breaker.Closed})
}

func (g *Guard) apply(dependency, region string, v breaker.Verdict) {
	g.t.Helper()
	b, err := g.plugin.Breaker(dependency, region)
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	g.epoch++
	v.Epoch = g.epoch
	g.mu.Unlock()
	b.Apply(v)
}

// Calls is how many calls of a tool have come by, refused ones included.
func (g *Guard) Calls(tool string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[tool]
}

// Breaker gives a snapshot of a breaker.
func (g *Guard) Breaker(dependency, region string) breaker.Snapshot {
	g.t.Helper()
	b, err := g.plugin.Breaker(dependency, region)
	if err != nil {
		g.t.Fatal(err)
	}
	return b.Snapshot()
}

// unstarted is the plugin without what starting it takes: a server.
type unstarted struct {
	worker.PluginBase
	plugin *interceptor.Plugin
}

func (u unstarted) Name() string { return u.plugin.Name() }

func (u unstarted) ConfigureWorker(ctx context.Context, o worker.PluginConfigureWorkerOptions) error {
	return u.plugin.ConfigureWorker(ctx, o)
}

// counter counts the calls of guarded tools.
type counter struct {
	sdkinterceptor.WorkerInterceptorBase
	guard *Guard
}

func (c *counter) InterceptActivity(_ context.Context, next sdkinterceptor.ActivityInboundInterceptor) sdkinterceptor.ActivityInboundInterceptor {
	return &counterInbound{sdkinterceptor.ActivityInboundInterceptorBase{Next: next}, c.guard}
}

type counterInbound struct {
	sdkinterceptor.ActivityInboundInterceptorBase
	guard *Guard
}

func (i *counterInbound) ExecuteActivity(ctx context.Context, in *sdkinterceptor.ExecuteActivityInput) (any, error) {
	name := activity.GetInfo(ctx).ActivityType.Name
	i.guard.mu.Lock()
	if _, guarded := i.guard.calls[name]; guarded {
		i.guard.calls[name]++
	}
	i.guard.mu.Unlock()
	return i.Next.ExecuteActivity(ctx, in)
}
