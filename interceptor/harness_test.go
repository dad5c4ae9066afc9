package interceptor_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdkinterceptor "go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/interceptor"
)

var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

func newSuite() *testsuite.WorkflowTestSuite {
	suite := &testsuite.WorkflowTestSuite{}
	suite.SetLogger(quiet)
	return suite
}

func newWorkflowEnv() *testsuite.TestWorkflowEnvironment {
	return newSuite().NewTestWorkflowEnvironment().SetTestTimeout(time.Minute)
}

// clock moves only when a test moves it.
type clock struct {
	mu      sync.Mutex
	elapsed time.Duration
}

var wall = time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC)

func (c *clock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed
}

func (c *clock) Now() time.Time { return wall.Add(c.Elapsed()) }

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.elapsed += d
}

// key is the key of guarded's tools.
var key = breaker.Key{Dependency: "carrier-api", Region: "eu-west"}

// guarded is the configuration of these tests: two tools of one dependency.
func guarded(c *clock) interceptor.Config {
	return interceptor.Config{
		Region: "eu-west", Clock: c, Logger: quiet,
		Dependencies: []interceptor.Dependency{{
			Name: "carrier-api", Tools: interceptor.Tools("get_delivery_status", "create_label"),
			Breaker: breaker.Config{MinSamples: 10, Latency: 5 * time.Second, MaxAttemptsCounted: 3},
			Probe:   interceptor.Synthetic("get_delivery_status", query{ID: "PROBE-1"}),
		}},
	}
}

// byRegion takes the region from a query.
func byRegion(c interceptor.Config) interceptor.Config {
	c.Dependencies[0].Region = interceptor.RegionOf(func(q query) string { return q.Region })
	return c
}

func newPlugin(t *testing.T, c interceptor.Config) *interceptor.Plugin {
	t.Helper()
	p, err := interceptor.NewPlugin(nil, c)
	require.NoError(t, err)
	return p
}

// unstarted is the plugin without its start, which needs a server. Its interceptor outermost
// comes before the plugin's, like a client's.
type unstarted struct {
	worker.PluginBase
	plugin    *interceptor.Plugin
	outermost sdkinterceptor.WorkerInterceptor
}

func (unstarted) Name() string { return "unstarted" }

func (u unstarted) ConfigureWorker(ctx context.Context, o worker.PluginConfigureWorkerOptions) error {
	err := u.plugin.ConfigureWorker(ctx, o)
	o.WorkerOptions.Interceptors = append([]sdkinterceptor.WorkerInterceptor{u.outermost}, o.WorkerOptions.Interceptors...)
	return err
}

// options are worker options with the plugin. seen records what each activity returned to
// the SDK.
func options(p *interceptor.Plugin, seen *seen) worker.Options {
	return worker.Options{
		Plugins: []worker.Plugin{unstarted{plugin: p, outermost: seen}},
	}
}

// seen is outermost, so it records what the worker sends.
type seen struct {
	sdkinterceptor.WorkerInterceptorBase
	result any
	err    error
}

func (s *seen) InterceptActivity(_ context.Context, next sdkinterceptor.ActivityInboundInterceptor) sdkinterceptor.ActivityInboundInterceptor {
	return &seenInbound{sdkinterceptor.ActivityInboundInterceptorBase{Next: next}, s}
}

type seenInbound struct {
	sdkinterceptor.ActivityInboundInterceptorBase
	seen *seen
}

func (i *seenInbound) ExecuteActivity(ctx context.Context, in *sdkinterceptor.ExecuteActivityInput) (any, error) {
	result, err := i.Next.ExecuteActivity(ctx, in)
	i.seen.result, i.seen.err = result, err
	return result, err
}

// newWorker returns an environment with the plugin and one activity, and what the worker
// sends for it.
func newWorker(p *interceptor.Plugin, name string, f any) (*testsuite.TestActivityEnvironment, *seen) {
	var s seen
	return newWorkerWith(options(p, &s), name, f), &s
}

// newWorkerWith is newWorker with these options.
func newWorkerWith(o worker.Options, name string, f any) *testsuite.TestActivityEnvironment {
	env := newSuite().NewTestActivityEnvironment()
	env.SetWorkerOptions(o)
	env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	return env
}

// open opens guarded's breaker by a verdict of the fleet.
func open(p *interceptor.Plugin) {
	p.Apply(fleet.Table{Entries: []fleet.Entry{{Key: key, Verdict: breaker.Verdict{
		State: breaker.Open, Epoch: 1, Since: wall.Add(-10 * time.Second), Next: wall.Add(30 * time.Second),
		Reason: breaker.Reason{Rule: breaker.RuleFailureRate, Counts: breaker.Counts{Samples: 20, Failures: 12}, Horizon: 10 * time.Second, FailureRate: 0.5},
		Outage: "outage/carrier-api/eu-west",
	}}}})
}

// breakerOf returns the snapshot of a key, which must exist.
func breakerOf(t *testing.T, p *interceptor.Plugin, key breaker.Key) breaker.Snapshot {
	t.Helper()
	for _, s := range p.Breakers() {
		if s.Key == key {
			return s
		}
	}
	t.Fatalf("no breaker of %s", key)
	return breaker.Snapshot{}
}

// counted returns the samples of guarded's breaker.
func counted(t *testing.T, p *interceptor.Plugin) breaker.Counts {
	t.Helper()
	s := breakerOf(t, p, key)
	require.Zero(t, s.InFlight, "a permit was not returned")
	require.Zero(t, s.DoneTwice, "a permit was returned twice")
	return s.Evidence.Window
}
