package interceptor

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// signalTimeout bounds one report's way to the server.
const signalTimeout = 5 * time.Second

// reporter sends evidence up: when a breaker trips by itself, and while traffic
// returns. A healthy process sends nothing.
type reporter struct {
	plugin   *Plugin
	worker   string
	interval time.Duration
	wake     chan struct{}

	mu sync.Mutex
	// trips are the reports of breakers that tripped and that no outage workflow
	// has taken yet.
	trips map[breaker.Key]fleet.Report

	// ramps is what was last told of a key's ramp. Only run touches it.
	ramps map[breaker.Key]told
	// sequence is the last one used.
	sequence int64
}

// told is how much of a ramp the outage workflow knows.
type told struct {
	epoch int64
	calls int
}

func newReporter(p *Plugin) *reporter {
	r := &reporter{
		plugin: p, worker: identity(), interval: time.Second, wake: make(chan struct{}, 1),
		trips: map[breaker.Key]fleet.Report{}, ramps: map[breaker.Key]told{},
	}
	for _, d := range p.dependencies {
		// Often enough that a step of the ramp is judged on its own calls.
		r.interval = min(r.interval, d.Breaker.RampStep/4)
	}
	return r
}

// tripped takes a local trip. It does not wait for the report to be delivered.
func (r *reporter) tripped(t breaker.Transition) {
	b, ok := r.plugin.breakers.Find(t.Key)
	if !ok {
		return
	}
	r.mu.Lock()
	r.trips[t.Key] = fleet.Report{State: t.From, Epoch: b.Snapshot().Epoch, HoldOff: t.HoldOff, Evidence: t.Evidence}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reporter) run(ctx context.Context) {
	ticker := time.NewTicker(r.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			// What the last calls showed is still worth telling. Each send has its
			// own deadline.
			r.sendTrips(context.WithoutCancel(ctx))
			return
		case <-r.wake:
		case <-ticker.C:
		}
		r.sendTrips(ctx)
		r.sendRamps(ctx)
	}
}

// sendTrips delivers what is pending. A report that fails stays pending for as
// long as this process still refuses calls on its own word.
func (r *reporter) sendTrips(ctx context.Context) {
	r.mu.Lock()
	pending := make(map[breaker.Key]fleet.Report, len(r.trips))
	for key, report := range r.trips {
		pending[key] = report
	}
	r.mu.Unlock()
	for key, report := range pending {
		err := r.start(ctx, key, report)
		b, known := r.plugin.breakers.Find(key)
		if err != nil {
			r.plugin.config.Logger.Warn("Reporting a tripped breaker failed; it goes on alone.", "key", key.String(), "error", err)
			if known && b.Snapshot().State != breaker.Closed {
				continue
			}
		}
		r.mu.Lock()
		if r.trips[key] == report {
			delete(r.trips, key)
		}
		r.mu.Unlock()
	}
}

// start brings a report to the key's outage workflow, and starts one where none
// runs.
func (r *reporter) start(ctx context.Context, key breaker.Key, report fleet.Report) error {
	settings, err := r.plugin.settings(key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	id := probeworkflow.OutageID(key)
	_, err = r.plugin.client.SignalWithStartWorkflow(ctx, id, probeworkflow.ReportSignal, r.sign(key, report),
		client.StartWorkflowOptions{
			ID: id, TaskQueue: r.plugin.config.TaskQueue,
			StaticSummary: "Outage of " + key.String(),
		}, probeworkflow.OutageWorkflow, probeworkflow.OutageInput{Settings: settings})
	return err
}

// sendRamps tells the outage workflows how returning traffic fares: once the
// minimum of calls has ended, and again for each as many more.
func (r *reporter) sendRamps(ctx context.Context) {
	for _, b := range r.plugin.breakers.All() {
		s := b.Snapshot()
		if s.State != breaker.Recovering || s.Outage == "" {
			delete(r.ramps, s.Key)
			continue
		}
		last := r.ramps[s.Key]
		if s.Evidence.Ramp-last.calls == 0 || (s.Epoch == last.epoch && s.Evidence.Ramp-last.calls < b.Config().RampMinSamples) {
			continue
		}
		if err := r.signal(ctx, s.Outage, s.Key, fleet.Report{State: s.State, Epoch: s.Epoch, Evidence: s.Evidence}); err != nil {
			r.plugin.config.Logger.Debug("Reporting on a ramp failed.", "key", s.Key.String(), "error", err)
			continue
		}
		r.ramps[s.Key] = told{epoch: s.Epoch, calls: s.Evidence.Ramp}
	}
}

func (r *reporter) signal(ctx context.Context, outage string, key breaker.Key, report fleet.Report) error {
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	return r.plugin.client.SignalWorkflow(ctx, outage, "", probeworkflow.ReportSignal, r.sign(key, report))
}

// sign says whose report it is.
func (r *reporter) sign(key breaker.Key, report fleet.Report) fleet.Report {
	r.sequence = max(r.sequence+1, r.plugin.config.Clock.Now().UnixMilli())
	report.Worker, report.Sequence = r.worker, r.sequence
	if d, ok := r.plugin.dependency(key.Dependency); ok {
		report.TaskQueue = r.plugin.taskQueue(d.Tools[0])
	}
	return report
}
