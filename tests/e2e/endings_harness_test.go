package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// TestEndings is how a tool call can end, line by line, against a real server: what
// the breaker records of it, and what the workflow gets. Each group has a namespace,
// and so a fleet, of its own.
func TestEndings(t *testing.T) {
	for name, group := range map[string]func(*testing.T){
		"samples":    testEndingsSamples,
		"elsewhere":  testEndingsElsewhere,
		"kinds":      testEndingsKinds,
		"retries":    testEndingsRetries,
		"refusals":   testEndingsRefusals,
		"encrypted":  testEndingsEncrypted,
		"parked":     testEndingsParked,
		"shutdown":   testEndingsShutdown,
		"neighbours": testEndingsNeighbours,
		"tracing":    testEndingsTracing,
		"plugins":    testEndingsPlugins,
		"twice":      testEndingsTwice,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group(t)
		})
	}
}

// soon ends a wait for something that is about to happen.
const soon = 20 * time.Second

// region is that of every call of these tests.
const region = "eu-west"

// patient is a breaker that nothing here opens.
var patient = breaker.Config{MinSamples: 1000}

// bench is a namespace with workers of one plugin. Each of its tools has a
// dependency of its own, with the tool's name, so that cases share no breaker.
type bench struct {
	t         *testing.T
	namespace string
	client    client.Client
	plugin    *interceptor.Plugin
	logs      *logbook
	meter     *meter
	// free is closed when the test ends, for tools that hang.
	free chan struct{}

	config     interceptor.Config
	activities []func(worker.Registry)
	edges      *edges

	mu     sync.Mutex
	called map[string]int
}

// body is what a tool does. fail is what its caller asks of it.
type body func(ctx context.Context, fail bool) (string, error)

// obliging does what it is asked.
func obliging(_ context.Context, fail bool) (string, error) {
	if fail {
		return "", errors.New("no connection")
	}
	return "fine", nil
}

// newBench makes a bench in a new namespace, for tools to be declared on. Its client
// notes metrics and logs.
func newBench(t *testing.T, options client.Options) *bench {
	t.Helper()
	b := &bench{
		t: t, namespace: newNamespace(t), logs: &logbook{}, meter: newMeter(),
		edges: newEdges(), free: make(chan struct{}), called: map[string]int{},
	}
	t.Cleanup(func() { close(b.free) })
	options.ConnectionOptions = uncompressed
	options.HostPort, options.Namespace, options.MetricsHandler, options.Logger = sharedServer, b.namespace, b.meter, b.logs.logger()
	var err error
	b.client, err = client.Dial(options)
	require.NoError(t, err)
	t.Cleanup(b.client.Close)
	b.config = interceptor.Config{
		Region: region, DataConverter: options.DataConverter, Logger: b.logs.logger(), OnTransition: b.edges.record,
	}
	return b
}

// guard declares a dependency with one tool, both of this name.
func (b *bench) guard(name string, config breaker.Config, more ...func(*interceptor.Dependency)) {
	d := interceptor.Dependency{
		Name: name, Tools: interceptor.Tools(name), Breaker: config, Probe: interceptor.NoProbe(),
	}
	for _, change := range more {
		change(&d)
	}
	b.config.Dependencies = append(b.config.Dependencies, d)
}

// tool declares a dependency with one tool, and registers the tool.
func (b *bench) tool(name string, config breaker.Config, do body, more ...func(*interceptor.Dependency)) {
	b.guard(name, config, more...)
	b.register(name, do)
}

// register registers a tool that is guarded elsewhere, or not at all.
func (b *bench) register(name string, do body) {
	b.activities = append(b.activities, func(r worker.Registry) {
		r.RegisterActivityWithOptions(b.counting(name, do), activity.RegisterOptions{Name: name})
	})
}

// counting counts the calls of a tool under a name.
func (b *bench) counting(name string, do body) body {
	return func(ctx context.Context, fail bool) (string, error) {
		b.count(name)
		return do(ctx, fail)
	}
}

func (b *bench) count(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.called[name]++
}

// calls is how often a tool was really called.
func (b *bench) calls(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.called[name]
}

// open makes the plugin, and starts a worker of it on the queue "tools" with
// everything that was declared.
func (b *bench) open() {
	b.t.Helper()
	b.makePlugin()
	b.startWorker("tools", worker.Options{}, b.activities...)
}

func (b *bench) makePlugin() {
	b.t.Helper()
	var err error
	b.plugin, err = interceptor.NewPlugin(b.client, b.config)
	require.NoError(b.t, err)
}

// startWorker starts one more worker of the plugin until the test ends.
func (b *bench) startWorker(queue string, options worker.Options, register ...func(worker.Registry)) worker.Worker {
	b.t.Helper()
	w := b.newWorker(queue, options, register...)
	require.NoError(b.t, w.Start())
	b.t.Cleanup(w.Stop)
	return w
}

func (b *bench) newWorker(queue string, options worker.Options, register ...func(worker.Registry)) worker.Worker {
	if options.Plugins == nil {
		options.Plugins = []worker.Plugin{b.plugin}
	}
	options.MaxHeartbeatThrottleInterval = 100 * time.Millisecond
	w := worker.New(b.client, queue, options)
	w.RegisterWorkflow(carryOut)
	w.RegisterWorkflow(carryOutTogether)
	w.RegisterWorkflow(park)
	for _, r := range register {
		r(w)
	}
	return w
}

// breaker is the state of a tool's breaker, that of a closed one without calls if
// it was never asked.
func (b *bench) breaker(name string) breaker.Snapshot { return snapshotOf(b.plugin, name) }

func snapshotOf(p *interceptor.Plugin, dependency string) breaker.Snapshot {
	for _, s := range p.Breakers() {
		if s.Key.Dependency == dependency {
			return s
		}
	}
	return breaker.Snapshot{State: breaker.Closed}
}

// settled is the state of a tool's breaker once no call is in flight. Each permit
// was handed back, and once.
func (b *bench) settled(t *testing.T, name string) breaker.Snapshot {
	t.Helper()
	require.Eventually(t, func() bool {
		s := b.breaker(name)
		return s.InFlight == 0 && s.Abandoned == 0
	}, soon, 5*time.Millisecond, "every permit of %s is handed back", name)
	s := b.breaker(name)
	assert.Zero(t, s.DoneTwice, "no permit of %s is handed back twice", name)
	return s
}

// expect waits until a tool's breaker is closed with exactly these samples, and
// nothing in flight.
func (b *bench) expect(t *testing.T, name string, want breaker.Counts) {
	t.Helper()
	require.Eventually(t, func() bool { return b.breaker(name).Evidence.Window == want || want == breaker.Counts{} },
		soon, 5*time.Millisecond, "%s: want %+v", name, want)
	s := b.settled(t, name)
	assert.Equal(t, want, s.Evidence.Window, "the samples of %s", name)
	assert.Equal(t, breaker.Closed, s.State, "the breaker of %s", name)
}

// trip calls a tool that obliges until its breaker opens. The breaker needs as many
// failures as this.
func (b *bench) trip(t *testing.T, name string, failures int) {
	t.Helper()
	key := breaker.Key{Dependency: name, Region: region}
	require.Empty(t, b.edges.of(key))
	for range failures {
		got := b.call(t, plan{Tool: name, Fail: true})
		require.Equal(t, toolcall.Failed, got.outcome(), "%+v", got)
	}
	require.NotEmpty(t, b.edges.of(key))
	require.Equal(t, breaker.Open, b.edges.of(key)[0].To)
}

// opened is a breaker that so many failures open, however long they take to come, for
// longer than a test takes.
func opened(by int) breaker.Config {
	return breaker.Config{MinSamples: by, Window: time.Hour, Cooldown: time.Hour}
}

// plan is a call of a tool by a workflow.
type plan struct {
	Tool string
	Fail bool
	// How: as an activity by default.
	How how
	// Queue defaults to "tools", Options to one attempt of patience's length.
	Queue   string
	Options *workflow.ActivityOptions
	// Cancellable: the workflow cancels the call at the signal "cancel".
	Cancellable bool
}

type how string

const (
	asActivity how = ""
	asLocal    how = "local"
	inSession  how = "session"
)

// once are options with one attempt.
func once(o workflow.ActivityOptions) *workflow.ActivityOptions {
	if o.StartToCloseTimeout == 0 {
		o.StartToCloseTimeout = patience
	}
	o.RetryPolicy = &temporal.RetryPolicy{MaximumAttempts: 1}
	return &o
}

// retried are options with retries that come soon; attempts 0: without end.
func retried(attempts int32, nonRetryable ...string) *workflow.ActivityOptions {
	return &workflow.ActivityOptions{
		StartToCloseTimeout: patience,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 50 * time.Millisecond, BackoffCoefficient: 1, MaximumAttempts: attempts,
			NonRetryableErrorTypes: nonRetryable,
		},
	}
}

// answer is what a workflow got for a call.
type answer struct {
	// Result is what toolcall makes of it; nil when the call was cancelled.
	Result *toolcall.Result[json.RawMessage]
	// Error is what the activity's future holds, in short.
	Error string
}

func (a answer) outcome() toolcall.Outcome {
	if a.Result == nil {
		return ""
	}
	return a.Result.Outcome()
}

// kind is the type of a failed call's error.
func (a answer) kind() string {
	if a.Result == nil || a.Result.Error == nil {
		return ""
	}
	return a.Result.Error.Type
}

// carryOut makes one call.
func carryOut(ctx workflow.Context, p plan) (answer, error) {
	options := p.Options
	if options == nil {
		options = once(workflow.ActivityOptions{})
	}
	if p.Queue != "" {
		options.TaskQueue = p.Queue
	}
	callCtx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, *options))
	if p.Cancellable {
		workflow.Go(ctx, func(ctx workflow.Context) {
			workflow.GetSignalChannel(ctx, "cancel").Receive(ctx, nil)
			cancel()
		})
	}
	var future workflow.Future
	switch p.How {
	case asLocal:
		callCtx = workflow.WithLocalActivityOptions(callCtx, workflow.LocalActivityOptions{
			StartToCloseTimeout: options.StartToCloseTimeout, RetryPolicy: options.RetryPolicy,
		})
		future = workflow.ExecuteLocalActivity(callCtx, p.Tool, p.Fail)
	case inSession:
		session, err := workflow.CreateSession(callCtx, &workflow.SessionOptions{CreationTimeout: patience, ExecutionTimeout: patience})
		if err != nil {
			return answer{}, err
		}
		defer workflow.CompleteSession(session)
		future = workflow.ExecuteActivity(session, p.Tool, p.Fail)
	default:
		future = workflow.ExecuteActivity(callCtx, p.Tool, p.Fail)
	}
	var a answer
	if r, err := toolcall.Get[json.RawMessage](ctx, p.Tool, future); err == nil {
		a.Result = &r
	}
	a.Error = inShort(future.Get(ctx, nil))
	return a, nil
}

// inShort is an activity's error by its class, type and retryability.
func inShort(err error) string {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	var cancelled *temporal.CanceledError
	var panicked *temporal.PanicError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &timeout):
		return timeout.TimeoutType().String() + " timeout"
	case errors.As(err, &app):
		if app.NonRetryable() {
			return strings.TrimSpace(app.Type() + " non-retryable")
		}
		return strings.TrimSpace(app.Type() + " retryable")
	case errors.As(err, &cancelled):
		return "cancelled"
	case errors.As(err, &panicked):
		return "panic"
	default:
		return err.Error()
	}
}

// start starts the workflow of a plan.
func (b *bench) start(t *testing.T, p plan) client.WorkflowRun {
	t.Helper()
	return b.startAs(t, carryOut, p)
}

func (b *bench) startAs(t *testing.T, workflow any, args ...any) client.WorkflowRun {
	t.Helper()
	run, err := b.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "tools"}, workflow, args...)
	require.NoError(t, err)
	return run
}

// call carries a plan out.
func (b *bench) call(t *testing.T, p plan) answer {
	t.Helper()
	return await[answer](t, b.start(t, p))
}

// history is that of a run.
func (b *bench) history(t *testing.T, run client.WorkflowRun) []*history.HistoryEvent {
	t.Helper()
	var events []*history.HistoryEvent
	iterator := b.client.GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iterator.HasNext() {
		event, err := iterator.Next()
		require.NoError(t, err)
		events = append(events, event)
	}
	return events
}

// assertRefused is what every refusal is: an error that Temporal does not retry,
// or a value, and for toolcall one outcome.
func assertRefused(t *testing.T, tool string, got answer) {
	t.Helper()
	require.Equal(t, toolcall.Refused, got.outcome(), "%+v", got)
	assert.Equal(t, tool, got.Result.Unavailable.Dependency)
	assert.Equal(t, tool, got.Result.Unavailable.Tool)
	assert.Equal(t, region, got.Result.Unavailable.Region)
	assert.Contains(t, got.Result.ForModel(), "was not executed")
	assert.Contains(t, []string{"", toolcall.DependencyUnavailable + " non-retryable"}, got.Error)
}

// logbook keeps what is logged at Warn and above.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logbook) logger() log.Logger { return log.NewStructuredLogger(slog.New(l)) }

// with are the lines that hold a text.
func (l *logbook) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.lines), func(line string) bool { return !strings.Contains(line, text) })
}

func (l *logbook) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (l *logbook) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l *logbook) WithGroup(string) slog.Handler                    { return l }

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// meter counts by metric and activity type.
type meter struct {
	mu     *sync.Mutex
	counts map[string]int64
	tags   map[string]string
}

func newMeter() *meter { return &meter{mu: &sync.Mutex{}, counts: map[string]int64{}} }

// count is what a counter of an activity type has come to.
func (m *meter) count(name, activityType string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[name+" "+activityType]
}

func (m *meter) WithTags(tags map[string]string) client.MetricsHandler {
	all := map[string]string{}
	for _, some := range []map[string]string{m.tags, tags} {
		for k, v := range some {
			all[k] = v
		}
	}
	return &meter{mu: m.mu, counts: m.counts, tags: all}
}

func (m *meter) Counter(name string) client.MetricsCounter {
	return counter(func(n int64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.counts[name+" "+m.tags["activity_type"]] += n
	})
}

func (m *meter) Gauge(string) client.MetricsGauge { return gauge{} }
func (m *meter) Timer(string) client.MetricsTimer { return timer{} }

type (
	counter func(int64)
	gauge   struct{}
	timer   struct{}
)

func (c counter) Inc(n int64)      { c(n) }
func (gauge) Update(float64)       {}
func (timer) Record(time.Duration) {}
