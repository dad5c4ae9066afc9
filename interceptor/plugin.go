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

// Plugin guards the tool activities of the workers it is given to. One plugin may
// serve several workers of one client, and workers may be started and stopped
// again. Make it with [NewPlugin]. All its methods are safe for concurrent use.
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

	// tools and probes are by activity type, and fixed once made.
	tools  map[string]*tool
	probes map[string]*dependency

	pending  pending
	refusals tally[run]
	// executed counts the attempts that called a tool whose WhenOpen is Wait.
	executed  tally[execution]
	warnTwice sync.Once

	registrations registrations
	lifecycle     lifecycle
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
	p.quarantine.changed = func() { p.polling.Set(p.quarantine.any()) }
	p.sender = newSender(p)
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
// configuration, or to read its snapshot. Changes hold for this process alone. It
// is an error if no such dependency is configured or the region is no valid name.
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

// ConfigureWorker adds the interceptor to a worker, lets its activity polling be
// slowed, and records the type of each activity. The worker calls it.
//
// A plugin that sets a MaxConcurrent*ExecutionSize must come before this one: this
// one sets a tuner, and the SDK allows only one of the two.
//
// The interceptor comes before those of worker.Options, so that none of them wraps
// a refusal: the server takes a wrapped one for retryable. Only the client's own
// interceptors, such as tracing, come before it. They must return an activity's
// error unchanged.
func (p *Plugin) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) error {
	o.WorkerOptions.Interceptors = append([]interceptor.WorkerInterceptor{&workerInterceptor{plugin: p}}, o.WorkerOptions.Interceptors...)
	// In quarantine a worker gives tasks back at once, and would take more of them
	// than all others. With slow polling it leaves the queue to them. A poll is for
	// no tool in particular, so all its tools are slowed.
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

// identity names this plugin among the workers of a fleet.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%d.%d@%s", os.Getpid(), plugins.Add(1), host)
}

func defaultLogger() log.Logger { return log.NewStructuredLogger(slog.Default()) }
