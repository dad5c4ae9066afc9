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

// Guard is the breaker's plugin in a test environment. Its methods may be called
// concurrently.
type Guard struct {
	t      testing.TB
	plugin *interceptor.Plugin

	mu    sync.Mutex
	calls map[string]int
	epoch int64
}

// New makes a guard for one test. It fails the test at once if config is invalid, and at the
// end if no call of a guarded tool has reached the breaker.
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

// Options returns options for SetWorkerOptions of the environment. Other options of the
// workers can be added.
func (g *Guard) Options() worker.Options {
	return worker.Options{Plugins: []worker.Plugin{unstarted{guard: g}}}
}

// Open opens a breaker with a cooldown of 30 s, like a verdict of the fleet.
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

// Calls returns the number of calls of a tool, including refused ones.
func (g *Guard) Calls(tool string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls[tool]
}

// Breaker returns a snapshot of a breaker.
func (g *Guard) Breaker(dependency, region string) breaker.Snapshot {
	g.t.Helper()
	b, err := g.plugin.Breaker(dependency, region)
	if err != nil {
		g.t.Fatal(err)
	}
	return b.Snapshot()
}

// unstarted is the plugin without its start, which needs a server. It puts counter in front of
// the breaker.
type unstarted struct {
	worker.PluginBase
	guard *Guard
}

func (u unstarted) Name() string { return u.guard.plugin.Name() }

func (u unstarted) ConfigureWorker(ctx context.Context, o worker.PluginConfigureWorkerOptions) error {
	err := u.guard.plugin.ConfigureWorker(ctx, o)
	o.WorkerOptions.Interceptors = append([]sdkinterceptor.WorkerInterceptor{&counter{guard: u.guard}}, o.WorkerOptions.Interceptors...)
	return err
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
