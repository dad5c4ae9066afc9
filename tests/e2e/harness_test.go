package e2e_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// shortTimeout limits a wait for something that follows within seconds.
const shortTimeout = 20 * time.Second

// region is the region of every call on a harness.
const region = "eu-west"

// neverTrips configures a breaker that no test opens.
var neverTrips = breaker.Config{MinSamples: 1000}

// tripsAfter configures a breaker that opens after this number of failures, at any
// pace. It stays open until the test ends.
func tripsAfter(failures int) breaker.Config {
	return breaker.Config{MinSamples: failures, Window: time.Hour, Cooldown: time.Hour}
}

// harness is a namespace with workers of one plugin. Each tool has a dependency with
// the tool's name, so tools share no breaker.
type harness struct {
	t         *testing.T
	namespace string
	client    client.Client
	plugin    *interceptor.Plugin
	logs      *logCapture
	metrics   *metricCounts
	// stopped is closed when the test ends, so that hanging tools return.
	stopped chan struct{}

	config      interceptor.Config
	activities  []func(worker.Registry)
	transitions *transitions

	mu sync.Mutex
	// executed counts the executions of each tool.
	executed map[string]int
}

// toolFunc implements a tool. fail is its argument.
type toolFunc func(ctx context.Context, fail bool) (string, error)

// failOnRequest fails if fail is set.
func failOnRequest(_ context.Context, fail bool) (string, error) {
	if fail {
		return "", errors.New("no connection")
	}
	return "fine", nil
}

// newHarness returns a harness without tools in a new namespace. Its client records
// metrics and logs.
func newHarness(t *testing.T, options client.Options) *harness {
	t.Helper()
	h := &harness{
		t: t, namespace: newNamespace(t), logs: &logCapture{}, metrics: newMetricCounts(),
		transitions: newTransitions(), stopped: make(chan struct{}), executed: map[string]int{},
	}
	t.Cleanup(func() { close(h.stopped) })
	options.ConnectionOptions = uncompressed
	options.HostPort, options.Namespace, options.MetricsHandler, options.Logger = sharedServer, h.namespace, h.metrics, h.logs.logger()
	var err error
	h.client, err = client.Dial(options)
	require.NoError(t, err)
	t.Cleanup(h.client.Close)
	h.config = interceptor.Config{
		Region: region, DataConverter: options.DataConverter, Logger: h.logs.logger(), OnTransition: h.transitions.record,
	}
	return h
}

// addDependency adds a dependency with one tool, both of this name, to the
// configuration.
func (h *harness) addDependency(name string, config breaker.Config, more ...func(*interceptor.Dependency)) {
	d := interceptor.Dependency{
		Name: name, Tools: interceptor.Tools(name), Breaker: config, Probe: interceptor.NoProbe(),
	}
	for _, change := range more {
		change(&d)
	}
	h.config.Dependencies = append(h.config.Dependencies, d)
}

// addTool adds a dependency with one tool, and registers the tool.
func (h *harness) addTool(name string, config breaker.Config, do toolFunc, more ...func(*interceptor.Dependency)) {
	h.addDependency(name, config, more...)
	h.registerTool(name, do)
}

// registerTool registers a tool without a dependency of its own.
func (h *harness) registerTool(name string, do toolFunc) {
	h.activities = append(h.activities, func(r worker.Registry) {
		r.RegisterActivityWithOptions(h.counted(name, do), activity.RegisterOptions{Name: name})
	})
}

// counted counts each execution under the tool's name.
func (h *harness) counted(name string, do toolFunc) toolFunc {
	return func(ctx context.Context, fail bool) (string, error) {
		h.count(name)
		return do(ctx, fail)
	}
}

func (h *harness) count(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.executed[name]++
}

// executions returns how often a tool was executed. Refused calls do not execute it.
func (h *harness) executions(name string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.executed[name]
}

// start creates the plugin and starts a worker with all tools on the task queue
// "tools".
func (h *harness) start() {
	h.t.Helper()
	h.createPlugin()
	h.startWorker("tools", worker.Options{}, h.activities...)
}

func (h *harness) createPlugin() {
	h.t.Helper()
	var err error
	h.plugin, err = interceptor.NewPlugin(h.client, h.config)
	require.NoError(h.t, err)
}

// startWorker starts a worker of the plugin. It stops when the test ends.
func (h *harness) startWorker(queue string, options worker.Options, register ...func(worker.Registry)) worker.Worker {
	h.t.Helper()
	w := h.newWorker(queue, options, register...)
	require.NoError(h.t, w.Start())
	h.t.Cleanup(w.Stop)
	return w
}

func (h *harness) newWorker(queue string, options worker.Options, register ...func(worker.Registry)) worker.Worker {
	if options.Plugins == nil {
		options.Plugins = []worker.Plugin{h.plugin}
	}
	options.MaxHeartbeatThrottleInterval = 100 * time.Millisecond
	w := worker.New(h.client, queue, options)
	w.RegisterWorkflow(makeCall)
	w.RegisterWorkflow(makeCallsInRun)
	w.RegisterWorkflow(awaitRecovery)
	for _, r := range register {
		r(w)
	}
	return w
}

// snapshot returns the state of a tool's breaker: closed if the tool was not called.
func (h *harness) snapshot(name string) breaker.Snapshot { return snapshotOf(h.plugin, name) }

func snapshotOf(p *interceptor.Plugin, dependency string) breaker.Snapshot {
	for _, s := range p.Breakers() {
		if s.Key.Dependency == dependency {
			return s
		}
	}
	return breaker.Snapshot{State: breaker.Closed}
}

// awaitNoneInFlight waits until a tool's breaker has no call in flight. Each permit
// must have been returned exactly once.
func (h *harness) awaitNoneInFlight(t *testing.T, name string) breaker.Snapshot {
	t.Helper()
	require.Eventually(t, func() bool {
		s := h.snapshot(name)
		return s.InFlight == 0 && s.Abandoned == 0
	}, shortTimeout, 5*time.Millisecond, "every permit of %s is returned", name)
	s := h.snapshot(name)
	assert.Zero(t, s.DoneTwice, "no permit of %s is returned twice", name)
	return s
}

// awaitSamples waits until a tool's breaker is closed with exactly these samples and no
// call in flight.
func (h *harness) awaitSamples(t *testing.T, name string, want breaker.Counts) {
	t.Helper()
	require.Eventually(t, func() bool { return h.snapshot(name).Evidence.Window == want || want == breaker.Counts{} },
		shortTimeout, 5*time.Millisecond, "%s: want %+v", name, want)
	s := h.awaitNoneInFlight(t, name)
	assert.Equal(t, want, s.Evidence.Window, "the samples of %s", name)
	assert.Equal(t, breaker.Closed, s.State, "the breaker of %s", name)
}

// trip makes failing calls, which must open the tool's breaker. The tool is
// failOnRequest.
func (h *harness) trip(t *testing.T, name string, failures int) {
	t.Helper()
	key := breaker.Key{Dependency: name, Region: region}
	require.Empty(t, h.transitions.of(key))
	for range failures {
		got := h.call(t, callSpec{Tool: name, Fail: true})
		require.Equal(t, toolcall.Failed, got.outcome(), "%+v", got)
	}
	require.NotEmpty(t, h.transitions.of(key))
	require.Equal(t, breaker.Open, h.transitions.of(key)[0].To)
}

// startCall starts a workflow that makes the call.
func (h *harness) startCall(t *testing.T, spec callSpec) client.WorkflowRun {
	t.Helper()
	return h.startWorkflow(t, makeCall, spec)
}

func (h *harness) startWorkflow(t *testing.T, workflow any, args ...any) client.WorkflowRun {
	t.Helper()
	run, err := h.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "tools"}, workflow, args...)
	require.NoError(t, err)
	return run
}

// call makes the call in a workflow and returns its result.
func (h *harness) call(t *testing.T, spec callSpec) callResult {
	t.Helper()
	return awaitResult[callResult](t, h.startCall(t, spec))
}

func (h *harness) history(t *testing.T, run client.WorkflowRun) []*history.HistoryEvent {
	t.Helper()
	var events []*history.HistoryEvent
	iterator := h.client.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iterator.HasNext() {
		event, err := iterator.Next()
		require.NoError(t, err)
		events = append(events, event)
	}
	return events
}
