package interceptor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/internal/polling"
)

// Plugin guards the tool activities of the workers that it is given to. One plugin can
// serve several workers of one client, and workers may be stopped and started again.
// Make one with [NewPlugin]. All methods may be called concurrently.
type Plugin struct {
	worker.PluginBase
	client client.Client
	// control is the client of the breaker's own workflows.
	control      client.Client
	config       Config
	dependencies []*dependency
	breakers     *breaker.Registry
	sender       *sender
	quarantine   *quarantine
	// polling is slow during a quarantine.
	polling polling.Gate

	// tools and probes are keyed by activity type. They do not change.
	tools  map[string]*tool
	probes map[string]*dependency

	pending  pending
	refusals counter[run]
	// executed counts the attempts in which a tool was called, for tools with Wait.
	executed  counter[execution]
	warnTwice sync.Once

	registrations registrations
	lifecycle     lifecycle
}

// NewPlugin makes a plugin for worker.Options.Plugins. The error lists every mistake in
// config with its field.
func NewPlugin(c client.Client, config Config) (*Plugin, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("toolbreaker configuration:\n%w", err)
	}
	p := &Plugin{
		client: c, control: config.Control, config: config,
		tools: map[string]*tool{}, probes: map[string]*dependency{},
	}
	if p.control == nil {
		p.control = c
	}
	for _, d := range config.Dependencies {
		known := newDependency(d, config.Region)
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
	p.quarantine = newQuarantine(c)
	p.quarantine.changed = func() { p.polling.Set(p.quarantine.slowPolling()) }
	p.sender = newSender(p)
	return p, nil
}

// Name returns the plugin's name in worker heartbeats.
func (*Plugin) Name() string { return "toolbreaker" }

// Breakers returns a snapshot of every breaker of this process.
func (p *Plugin) Breakers() []breaker.Snapshot {
	var all []breaker.Snapshot
	for _, b := range p.breakers.All() {
		all = append(all, b.Snapshot())
	}
	return all
}

// Breaker returns this process's breaker of a key, to force a state, change the
// configuration or read a snapshot. Changes apply to this process only. It returns an
// error if the dependency is not configured or the region is not a valid name.
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

// ConfigureWorker adds the interceptor to a worker, makes slow polling possible, and
// records the registered activities. The worker calls it.
//
// It sets a tuner, and the SDK does not accept a tuner together with a
// MaxConcurrent*ExecutionSize. So a plugin that sets one of these must come before this
// plugin.
//
// The interceptor comes before those of worker.Options, so that they cannot wrap a
// refusal, which the server would then retry. Only interceptors of the client, such as
// tracing, come before it. They must return an activity's error unchanged.
func (p *Plugin) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) error {
	o.WorkerOptions.Interceptors = append([]interceptor.WorkerInterceptor{&workerInterceptor{plugin: p}}, o.WorkerOptions.Interceptors...)
	// A quarantined worker returns tasks at once and would take more of them than all other
	// workers. Slow polling leaves the tasks to them. A poll is for all activity types, so
	// all tools are slowed.
	polling.Configure(o.WorkerOptions, &p.polling)
	p.registrations.setBuildID(o.WorkerOptions.DeploymentOptions.Version.BuildID)
	beforeDynamic := o.WorkerRegistryOptions.OnRegisterDynamicActivity
	o.WorkerRegistryOptions.OnRegisterDynamicActivity = func(a any, options activity.DynamicRegisterOptions) {
		if beforeDynamic != nil {
			beforeDynamic(a, options)
		}
		p.registrations.addDynamic()
	}
	before := o.WorkerRegistryOptions.OnRegisterActivity
	o.WorkerRegistryOptions.OnRegisterActivity = func(a any, options activity.RegisterOptions) {
		if before != nil {
			before(a, options)
		}
		for name, f := range activityTypes(a, options) {
			p.registrations.add(name, registered{taskQueue: o.TaskQueue, activity: a, options: options})
			if tool, ok := p.tools[name]; ok {
				tool.typed.Store(isTyped(f))
			}
		}
	}
	return nil
}

var plugins atomic.Int64

// identity returns a name for this plugin that is unique in the fleet.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%d.%d@%s", os.Getpid(), plugins.Add(1), host)
}

func defaultLogger() log.Logger { return log.NewStructuredLogger(slog.Default()) }
