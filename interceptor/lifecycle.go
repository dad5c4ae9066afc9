package interceptor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/fleet/member"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// bootstrapTimeout limits how long a starting worker waits for the board before its first
// task.
const bootstrapTimeout = 2 * time.Second

// lifecycle starts the control worker with a plugin's first worker and stops it after the
// last. The zero lifecycle has no worker.
type lifecycle struct {
	// mu is held while workers start and stop.
	mu sync.Mutex
	// running are the started workers, by instance key.
	running map[string]bool
	stop    func()
}

// StartWorker starts the control worker with the plugin's first worker, and reads the
// board before that worker takes a task. All workers of a plugin must have registered
// their activities before the first one starts. The worker calls it.
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

// StopWorker stops the control worker after the plugin's last worker. Trips that have not
// been reported are reported first. The worker calls it.
func (p *Plugin) StopWorker(ctx context.Context, o worker.PluginStopWorkerOptions, next func(context.Context, worker.PluginStopWorkerOptions)) {
	next(ctx, o)
	p.release(o.WorkerInstanceKey)
}

func (p *Plugin) start(ctx context.Context, instance string) error {
	l := &p.lifecycle
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.running) == 0 {
		stop, err := p.startAll(ctx)
		if err != nil {
			return err
		}
		l.running, l.stop = map[string]bool{}, stop
	}
	l.running[instance] = true
	return nil
}

// release stops everything after the last worker. A worker that never started does not
// count.
func (p *Plugin) release(instance string) {
	l := &p.lifecycle
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.running[instance] {
		return
	}
	if delete(l.running, instance); len(l.running) == 0 {
		l.stop()
	}
}

// startAll starts the control workers and the background goroutines.
func (p *Plugin) startAll(ctx context.Context) (stop func(), err error) {
	if err := p.checkRegistered(); err != nil {
		return nil, fmt.Errorf("toolbreaker configuration:\n%w", err)
	}
	stopControl, err := p.startControlWorkers()
	if err != nil {
		return nil, fmt.Errorf("starting the breaker's control worker: %w", err)
	}
	watcher := &member.Watcher{
		Client: p.control, TaskQueue: p.config.TaskQueue, Apply: p.apply, Logger: p.config.Logger, DataConverter: p.config.DataConverter,
	}
	bootstrap, cancelBootstrap := context.WithTimeout(ctx, bootstrapTimeout)
	if err := watcher.Bootstrap(bootstrap); err != nil {
		p.config.Logger.Warn("The breaker board could not be read at start. Every breaker begins closed until it can be read.", "error", err)
	}
	cancelBootstrap()

	stopBreakers := inBackground(func(ctx context.Context) { p.breakers.Run(ctx, p.config.tick()) })
	stopWatcher := inBackground(watcher.Run)
	stopSender := inBackground(p.sender.run)
	stopQuarantine := inBackground(p.quarantine.run)
	return func() {
		// The sender stops after the breakers, so that their last transition is reported.
		stopBreakers()
		stopSender()
		stopWatcher()
		stopQuarantine()
		stopControl()
	}, nil
}

// startControlWorkers starts the workers of the breaker's own workflows and activities.
// If Config.Control is another client, further workers run there for the synthetic calls.
func (p *Plugin) startControlWorkers() (stop func(), err error) {
	var workers []worker.Worker
	add := func(c client.Client, taskQueue string) worker.Worker {
		o := controlOptions()
		o.Identity = p.sender.reporter.Worker
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
	waiting := control
	if p.control != p.client {
		waiting = add(p.client, p.config.TaskQueue)
		for taskQueue, registrations := range p.probeRegistrations() {
			prober := add(p.control, taskQueue)
			for _, r := range registrations {
				prober.RegisterActivityWithOptions(r.activity, r.options)
			}
		}
	}
	waiting.RegisterActivityWithOptions(p.awaitRecovery, activity.RegisterOptions{Name: toolcall.AwaitRecoveryActivity})
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

// inBackground runs f in a goroutine until stop is called. stop waits until f returns.
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

// controlOptions keep a control worker small, because each process has one and it is
// almost always idle.
func controlOptions() worker.Options {
	return worker.Options{
		MaxConcurrentWorkflowTaskPollers:       2,
		MaxConcurrentActivityTaskPollers:       2,
		MaxConcurrentActivityExecutionSize:     20,
		MaxConcurrentWorkflowTaskExecutionSize: 20,
	}
}
