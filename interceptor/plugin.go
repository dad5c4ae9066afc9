package interceptor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/internal/polling"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// bootstrapTimeout bounds how long a starting worker waits to hear what is open
// before its first task.
const bootstrapTimeout = 2 * time.Second

// Plugin guards the tool activities of the workers it is given to. One plugin
// may serve several workers of one client, and workers may be started and
// stopped again; make it with [NewPlugin].
type Plugin struct {
	worker.PluginBase
	client client.Client
	// control is the client of the breaker's own workflows.
	control      client.Client
	config       Config
	dependencies []*dependency
	breakers     *breaker.Registry
	reporter     *reporter
	alone        *alone
	// polling is slow while this process is quarantined.
	polling polling.Gate

	// tools and probes by activity type; fixed once made.
	tools  map[string]*tool
	probes map[string]*dependency

	pending  pending
	refusals tally[run]
	// executed counts the attempts in which a tool was called that waits.
	executed tally[execution]
	twice    sync.Once

	mu sync.Mutex
	// dynamic: a worker takes activities of every name.
	dynamic bool
	// activities are what the plugin's workers have registered, by name.
	activities map[string]registered
	// buildID is that of the last worker that has one.
	buildID string

	// lifecycle guards running and stop, and is held while workers start and stop.
	lifecycle sync.Mutex
	// running are the workers that have started, by instance key.
	running map[string]bool
	stop    func()
}

// dependency is a configured one, with defaults set.
type dependency struct {
	Dependency
	defaultRegion string
	closed        closedRegions
}

func (d *dependency) classify(ctx context.Context, result any, err error) breaker.Outcome {
	// An activity that ends elsewhere has no outcome yet, whoever is asked.
	if d.Classify != nil && ctx.Err() == nil && !errors.Is(err, activity.ErrResultPending) {
		if outcome, ok := d.askUser(result, err); ok {
			return outcome
		}
	}
	if d.Breaker.FailOnRateLimit && ctx.Err() == nil && rateLimited(err) {
		return breaker.Failure
	}
	return Classify(ctx, result, err)
}

// askUser asks the user's classifier. One that panics says nothing, and leaves the
// tool's result alone.
func (d *dependency) askUser(result any, err error) (outcome breaker.Outcome, ok bool) {
	defer func() {
		if recover() != nil {
			outcome, ok = breaker.Ignored, true
		}
	}()
	return d.Classify(result, err)
}

// region is where a call with these arguments goes.
func (d *dependency) region(args []any) string {
	if d.Region != nil {
		if r := d.Region(args); breaker.ValidateName(r) == nil {
			return r
		}
	}
	return d.defaultRegion
}

// NewPlugin makes a plugin for worker.Options.Plugins. The error names every
// mistake in config at once, each with its field.
func NewPlugin(c client.Client, config Config) (*Plugin, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("toolbreaker configuration:\n%w", err)
	}
	p := &Plugin{
		client: c, control: config.Control, config: config,
		tools: map[string]*tool{}, probes: map[string]*dependency{}, activities: map[string]registered{},
		running: map[string]bool{},
	}
	if p.control == nil {
		p.control = c
	}
	for _, d := range config.Dependencies {
		d.Breaker = d.Breaker.WithDefaults()
		d.Breaker.NoProbe = d.Probe.none
		known := &dependency{Dependency: d, defaultRegion: config.Region}
		if known.defaultRegion == "" {
			known.defaultRegion = "default"
		}
		p.dependencies = append(p.dependencies, known)
		for _, name := range d.Tools {
			p.tools[name] = &tool{name: name, dependency: known}
		}
		if !d.Probe.none {
			p.probes[d.Probe.activity] = known
		}
	}
	p.breakers = breaker.NewRegistry(p.config.Clock, p.transition)
	p.breakers.OnSuspicion = p.suspected
	p.alone = newAlone(c)
	p.alone.changed = func() { p.polling.Set(p.alone.any()) }
	p.reporter = newReporter(p)
	return p, nil
}

// Name is the plugin's name in worker heartbeats.
func (*Plugin) Name() string { return "toolbreaker" }

// Breakers gives a snapshot of every breaker of this process.
func (p *Plugin) Breakers() []breaker.Snapshot {
	var all []breaker.Snapshot
	for _, b := range p.breakers.All() {
		all = append(all, b.Snapshot())
	}
	return all
}

// Breaker gives this process's breaker of a key: to force a state, to change its
// configuration, or to look at what it has observed. What is done to it holds for
// this process alone. The error says that no such dependency is configured, or
// that the region is no name.
func (p *Plugin) Breaker(dependency, region string) (*breaker.Breaker, error) {
	d, ok := p.dependency(dependency)
	if !ok {
		return nil, fmt.Errorf("no dependency %q is configured", dependency)
	}
	if err := breaker.ValidateName(region); err != nil {
		return nil, fmt.Errorf("region: %w", err)
	}
	return p.breakers.Get(breaker.Key{Dependency: dependency, Region: region}, d.Breaker), nil
}

// ConfigureWorker adds the interceptor, makes the worker's polling one that can be
// slowed, and learns each activity's type. A plugin that sets a
// MaxConcurrent*ExecutionSize comes before this one: with the slots goes a tuner,
// and the SDK takes one or the other.
//
// The interceptor comes before those of worker.Options, so that nothing of theirs
// wraps a refusal: wrapped, the server would take it for retryable. Only a
// client's own interceptors stand before it, tracing for one; those must give an
// activity's error on as it is.
func (p *Plugin) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) error {
	o.WorkerOptions.Interceptors = append([]interceptor.WorkerInterceptor{&workerInterceptor{plugin: p}}, o.WorkerOptions.Interceptors...)
	p.slowable(o.WorkerOptions)
	if id := o.WorkerOptions.DeploymentOptions.Version.BuildID; id != "" {
		p.mu.Lock()
		p.buildID = id
		p.mu.Unlock()
	}
	beforeDynamic := o.WorkerRegistryOptions.OnRegisterDynamicActivity
	o.WorkerRegistryOptions.OnRegisterDynamicActivity = func(a any, options activity.DynamicRegisterOptions) {
		if beforeDynamic != nil {
			beforeDynamic(a, options)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dynamic = true
	}
	before := o.WorkerRegistryOptions.OnRegisterActivity
	o.WorkerRegistryOptions.OnRegisterActivity = func(a any, options activity.RegisterOptions) {
		if before != nil {
			before(a, options)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for name, f := range activityTypes(a, options) {
			p.activities[name] = registered{taskQueue: o.TaskQueue, activity: a, options: options}
			if tool, ok := p.tools[name]; ok {
				tool.typed.Store(isTyped(f))
			}
		}
	}
	return nil
}

// StartWorker starts the control worker with the first of the plugin's workers,
// and hears what is open before that worker takes its first task. All workers
// that share a plugin register their activities before the first one starts.
func (p *Plugin) StartWorker(ctx context.Context, o worker.PluginStartWorkerOptions, next func(context.Context, worker.PluginStartWorkerOptions) error) error {
	if err := p.start(ctx, o.WorkerInstanceKey); err != nil {
		return err
	}
	if err := next(ctx, o); err != nil {
		p.release(o.WorkerInstanceKey)
		return err
	}
	return nil
}

// StopWorker lets the worker drain first, so that what its last calls showed
// is still reported.
func (p *Plugin) StopWorker(ctx context.Context, o worker.PluginStopWorkerOptions, next func(context.Context, worker.PluginStopWorkerOptions)) {
	next(ctx, o)
	p.release(o.WorkerInstanceKey)
}

func (p *Plugin) start(ctx context.Context, instance string) error {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	if len(p.running) == 0 {
		if err := p.startControl(ctx); err != nil {
			return err
		}
	}
	p.running[instance] = true
	return nil
}

func (p *Plugin) startControl(ctx context.Context) error {
	if err := p.checkRegistered(); err != nil {
		return fmt.Errorf("toolbreaker configuration:\n%w", err)
	}
	stopControl, err := p.startControlWorkers()
	if err != nil {
		return fmt.Errorf("starting the breaker's control worker: %w", err)
	}
	watcher := &fleet.Watcher{
		Client: p.control, TaskQueue: p.config.TaskQueue, Apply: p.apply, Logger: p.config.Logger, DataConverter: p.config.DataConverter,
	}
	bootstrap, cancelBootstrap := context.WithTimeout(ctx, bootstrapTimeout)
	if err := watcher.Bootstrap(bootstrap); err != nil {
		p.config.Logger.Warn("Starting without knowing what is open; every breaker begins closed.", "error", err)
	}
	cancelBootstrap()

	stopBreakers := inBackground(func(ctx context.Context) { p.breakers.Run(ctx, p.config.tick()) })
	stopWatcher := inBackground(watcher.Run)
	stopReporter := inBackground(p.reporter.run)
	stopAlone := inBackground(p.alone.run)
	p.stop = func() {
		// In this order, so that the last transition is still reported.
		stopBreakers()
		stopReporter()
		stopWatcher()
		stopAlone()
		stopControl()
	}
	return nil
}

// startControlWorkers starts the workers of the breaker's own workflows and
// activities. Under their own namespace, tools are called there as well by a
// worker that takes synthetic calls alone.
func (p *Plugin) startControlWorkers() (stop func(), err error) {
	var workers []worker.Worker
	add := func(c client.Client, taskQueue string) worker.Worker {
		o := controlOptions()
		o.Identity = p.reporter.witness.Worker
		if taskQueue != p.config.TaskQueue {
			o.DisableWorkflowWorker = true
			o.Interceptors = []interceptor.WorkerInterceptor{&workerInterceptor{plugin: p}}
		}
		w := worker.New(c, taskQueue, o)
		workers = append(workers, w)
		return w
	}
	control := add(p.control, p.config.TaskQueue)
	probeworkflow.Register(control, p.control, p.config.TaskQueue, p.settings)
	parking := control
	if p.control != p.client {
		parking = add(p.client, p.config.TaskQueue)
		for taskQueue, registrations := range p.probeRegistrations() {
			prober := add(p.control, taskQueue)
			for _, r := range registrations {
				prober.RegisterActivityWithOptions(r.activity, r.options)
			}
		}
	}
	parking.RegisterActivityWithOptions(p.awaitRecovery, activity.RegisterOptions{Name: toolcall.AwaitRecoveryActivity})
	for i, w := range workers {
		if err := w.Start(); err != nil {
			for _, started := range workers[:i] {
				started.Stop()
			}
			return nil, err
		}
	}
	return func() {
		for _, w := range workers {
			w.Stop()
		}
	}, nil
}

// inBackground runs f until the function it gives is called, which waits for it.
func inBackground(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// release stops what start started when the last worker is gone. A worker that
// never started is stopped as well, by callers who clean up, and counts for none.
func (p *Plugin) release(instance string) {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	if !p.running[instance] {
		return
	}
	if delete(p.running, instance); len(p.running) == 0 {
		p.stop()
	}
}

// controlOptions keep the control worker small: a fleet of a thousand has a
// thousand of them, and hardly ever anything to do.
func controlOptions() worker.Options {
	return worker.Options{
		MaxConcurrentWorkflowTaskPollers:       2,
		MaxConcurrentActivityTaskPollers:       2,
		MaxConcurrentActivityExecutionSize:     20,
		MaxConcurrentWorkflowTaskExecutionSize: 20,
	}
}

// breaker is the one that decides about a call to d with these arguments.
func (p *Plugin) breaker(d *dependency, args []any) *breaker.Breaker {
	return p.breakers.Get(breaker.Key{Dependency: d.Name, Region: d.region(args)}, d.Breaker)
}

func (p *Plugin) snapshot(key breaker.Key) (breaker.Snapshot, bool) {
	b, ok := p.breakers.Find(key)
	if !ok {
		return breaker.Snapshot{}, false
	}
	return b.Snapshot(), true
}

func (p *Plugin) dependency(name string) (*dependency, bool) {
	for _, d := range p.dependencies {
		if d.Name == name {
			return d, true
		}
	}
	return nil, false
}

// apply takes the board's table: a key never called in this process is known
// to be down all the same.
func (p *Plugin) apply(t fleet.Table) {
	for _, e := range t.Entries {
		d, ok := p.dependency(e.Key.Dependency)
		if !ok {
			continue
		}
		b := p.breakers.Get(e.Key, d.Breaker)
		if e.Dismissed && slices.Contains(e.Alone, p.reporter.witness.Worker) && b.Snapshot().OnItsOwn() {
			p.alone.dismissed(e.Key, e.Verdict.Epoch)
			continue
		}
		b.Apply(e.Verdict)
		if e.Verdict.State != breaker.Closed {
			// It is the fleet's trouble now.
			p.alone.over(e.Key)
		}
	}
	p.reporter.heard(t)
}

// suspected is told with each tick what a breaker's own window says.
func (p *Plugin) suspected(b *breaker.Breaker, s breaker.Suspicion) {
	p.reporter.suspected(b, s)
	if d, ok := p.dependency(b.Key().Dependency); ok {
		// Should it trip, it is known by then whether others can do its work.
		p.alone.others(p.taskQueue(d.Tools[0]))
	}
}

// transition is told each edge of each breaker, in order.
func (p *Plugin) transition(t breaker.Transition) {
	fields := []any{"dependency", t.Key.Dependency, "region", t.Key.Region, "from", t.From.String(), "to", t.To.String()}
	switch {
	case t.To == breaker.Open && t.From != breaker.HalfOpen:
		p.config.Logger.Warn("Breaker opened.", append(fields, "reason", t.Reason.String())...)
	default:
		p.config.Logger.Info("Breaker changed state.", fields...)
	}
	switch {
	case t.Local && t.To == breaker.Open:
		p.reporter.tripped(t)
	case t.To == breaker.Closed:
		p.reporter.closed(t.Key)
		p.alone.over(t.Key)
	}
	if p.config.OnTransition != nil {
		p.config.OnTransition(t)
	}
}

// warnTwice tells that a call has come by this plugin before.
func (p *Plugin) warnTwice() {
	p.twice.Do(func() {
		p.config.Logger.Warn("The breaker's plugin was given to a worker more than once; each call is guarded once all the same.")
	})
}

// build is the build ID of this process's workers, where they have one.
func (p *Plugin) build() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buildID
}

// taskQueue is where an activity type of this plugin's workers runs.
func (p *Plugin) taskQueue(activityType string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.activities[activityType].taskQueue
}

// settings are what an outage of key is run by.
func (p *Plugin) settings(key breaker.Key) (probeworkflow.Settings, error) {
	d, ok := p.dependency(key.Dependency)
	if !ok {
		return probeworkflow.Settings{}, fmt.Errorf("no dependency %s is configured", key.Dependency)
	}
	s := probeworkflow.Settings{Key: key, Breaker: d.Breaker}
	if d.Probe.none {
		return s, nil
	}
	args, err := probeworkflow.EncodeArgs(p.config.DataConverter, d.Probe.args(key.Region))
	if err != nil {
		return s, fmt.Errorf("encoding the probe's arguments of %s: %w", key, err)
	}
	s.Call = &probeworkflow.Call{
		Activity: d.Probe.activity, Args: args, TaskQueue: p.taskQueue(d.Probe.activity),
		QueueTimeout: max(d.Breaker.Cooldown, 2*d.Breaker.Latency),
	}
	return s, nil
}

var plugins atomic.Int64

// identity names a plugin among the workers of a fleet.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%d.%d@%s", os.Getpid(), plugins.Add(1), host)
}

func defaultLogger() log.Logger { return log.NewStructuredLogger(slog.Default()) }
