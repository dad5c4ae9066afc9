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

// bootstrapTimeout bounds how long a starting worker waits for the board's table
// before its first task.
const bootstrapTimeout = 2 * time.Second

// lifecycle is what starts with the first of a plugin's workers and stops with the
// last. The zero lifecycle has no worker.
type lifecycle struct {
	// mu is held while workers start and stop.
	mu sync.Mutex
	// running are the workers that have started, by instance key.
	running map[string]bool
	stop    func()
}

// StartWorker starts the control worker with the first of the plugin's workers, and
// reads what is open before that worker takes its first task. All workers of a
// plugin must register their activities before the first one starts.
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

// StopWorker stops the control worker after the last of the plugin's workers. What
// the last calls showed is still reported.
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

// release stops everything with the last worker. Stopping a worker that never
// started changes nothing.
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

// startAll starts the control workers and what runs in the background.
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
		p.config.Logger.Warn("The breaker board could not be read at start. Every breaker begins closed.", "error", err)
	}
	cancelBootstrap()

	stopBreakers := inBackground(func(ctx context.Context) { p.breakers.Run(ctx, p.config.tick()) })
	stopWatcher := inBackground(watcher.Run)
	stopSender := inBackground(p.sender.run)
	stopQuarantine := inBackground(p.quarantine.run)
	return func() {
		// The sender stops after the breakers, so that their last transition is
		// reported.
		stopBreakers()
		stopSender()
		stopWatcher()
		stopQuarantine()
		stopControl()
	}, nil
}

// startControlWorkers starts the workers of the breaker's own workflows and
// activities. Where these have a namespace of their own, more workers run there
// that take the synthetic calls.
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

// inBackground runs f in a goroutine until stop is called. stop waits for its end.
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

// controlOptions keep a control worker small: a fleet of a thousand has a thousand
// of them, and they are nearly always idle.
func controlOptions() worker.Options {
	return worker.Options{
		MaxConcurrentWorkflowTaskPollers:       2,
		MaxConcurrentActivityTaskPollers:       2,
		MaxConcurrentActivityExecutionSize:     20,
		MaxConcurrentWorkflowTaskExecutionSize: 20,
	}
}
