package interceptor

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

const (
	// signalTimeout bounds one signal's way to the server.
	signalTimeout = 5 * time.Second
	// idle is how long a reporter sleeps that has nothing to tell.
	idle = time.Hour
)

// reporter sends evidence up: when a breaker trips or suspects something by
// itself, when the fleet is asked, and while traffic returns. A healthy process
// sends nothing.
type reporter struct {
	plugin   *Plugin
	interval time.Duration
	wake     chan struct{}

	mu      sync.Mutex
	witness fleet.Witness

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
		plugin: p, interval: time.Second, wake: make(chan struct{}, 1), ramps: map[breaker.Key]told{},
		witness: fleet.Witness{Worker: identity(), Random: rand.Float64, Breaker: p.snapshot},
	}
	for _, d := range p.dependencies {
		// Often enough that a step of the ramp is judged on its own calls.
		r.interval = min(r.interval, d.Breaker.RampStep/4)
	}
	return r
}

func (r *reporter) now() time.Duration { return r.plugin.config.Clock.Elapsed() }

// tell lets the witness take something in. It does not wait for what it says
// then.
func (r *reporter) tell(take func(w *fleet.Witness, now time.Duration)) {
	r.mu.Lock()
	take(&r.witness, r.now())
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// tripped takes a local trip.
func (r *reporter) tripped(t breaker.Transition) {
	s, ok := r.plugin.snapshot(t.Key)
	if !ok {
		return
	}
	r.tell(func(w *fleet.Witness, now time.Duration) {
		w.Tripped(now, t.Key, fleet.Report{State: t.From, Epoch: s.Epoch, HoldOff: t.HoldOff, Evidence: t.Evidence},
			r.plugin.alone.quarantined(t.Key))
	})
}

// closed takes that a breaker has closed.
func (r *reporter) closed(key breaker.Key) {
	r.tell(func(w *fleet.Witness, _ time.Duration) { w.Closed(key) })
}

// suspected takes what a breaker's own window says, with each tick.
func (r *reporter) suspected(b *breaker.Breaker, s breaker.Suspicion) {
	r.tell(func(w *fleet.Witness, now time.Duration) { w.Suspected(now, b.Key(), s) })
}

// heard takes the board's table.
func (r *reporter) heard(t fleet.Table) {
	r.tell(func(w *fleet.Witness, now time.Duration) {
		w.Heard(now, r.plugin.config.Clock.Now(), t, func(key breaker.Key) bool {
			_, known := r.plugin.dependency(key.Dependency)
			return known
		})
		for _, e := range t.Entries {
			if r.plugin.alone.quarantined(e.Key) {
				w.Known(e.Key)
			}
		}
	})
}

func (r *reporter) run(ctx context.Context) {
	ramps := time.NewTicker(r.interval)
	defer ramps.Stop()
	due := time.NewTimer(idle)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			// What the last calls showed is still worth telling. Each send has its
			// own deadline.
			r.speak(context.WithoutCancel(ctx), true)
			return
		case <-ramps.C:
			r.sendRamps(ctx)
		case <-r.wake:
		case <-due.C:
		}
		r.speak(ctx, false)
		due.Reset(r.next())
	}
}

// next is how long until there may be something to say.
func (r *reporter) next() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	due, ok := r.witness.Due()
	if !ok {
		return idle
	}
	return max(due-r.now(), 0)
}

// speak sends what the witness has to say now.
func (r *reporter) speak(ctx context.Context, last bool) {
	r.mu.Lock()
	statements := r.witness.Statements(r.now(), last)
	r.mu.Unlock()
	for _, s := range statements {
		err := r.send(ctx, s)
		var notFound *serviceerror.NotFound
		switch {
		case err == nil:
		case s.Kind == fleet.SayAnswer && errors.As(err, &notFound):
			r.tell(func(w *fleet.Witness, _ time.Duration) { w.Gone(s.Question) })
		case s.Kind == fleet.SayTripped:
			r.plugin.config.Logger.Warn("Reporting a tripped breaker failed; it goes on alone.", "key", s.Key.String(), "error", err)
			r.mu.Lock()
			r.witness.Failed(r.now(), s)
			r.mu.Unlock()
		default:
			r.plugin.config.Logger.Debug("Telling the fleet failed.", "key", s.Key.String(), "error", err)
		}
	}
}

func (r *reporter) send(ctx context.Context, s fleet.Statement) error {
	switch s.Kind {
	case fleet.SayWhisper:
		return r.signal(ctx, fleet.BoardID, fleet.WhisperSignal, fleet.Whisper{Key: s.Key, Worker: r.witness.Worker})
	case fleet.SayAnswer:
		return r.signal(ctx, s.Question.Outage, probeworkflow.ReportSignal, r.sign(s.Key, s.Report))
	default:
		return r.start(ctx, s.Key, s.Report)
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
	o := probeworkflow.StartOutage(key, r.plugin.config.TaskQueue)
	_, err = r.plugin.control.SignalWithStartWorkflow(ctx, o.ID, probeworkflow.ReportSignal, r.sign(key, report),
		o, probeworkflow.OutageWorkflow, probeworkflow.OutageInput{Settings: settings})
	return err
}

// sendRamps tells the outage workflows how returning traffic fares: once the
// minimum of calls has ended, and again for each as many more. In a large fleet
// those do that are drawn.
func (r *reporter) sendRamps(ctx context.Context) {
	for _, b := range r.plugin.breakers.All() {
		s := b.Snapshot()
		if s.State != breaker.Recovering || s.Outage == "" {
			delete(r.ramps, s.Key)
			continue
		}
		r.mu.Lock()
		drawn := r.witness.OnRamp(s)
		r.mu.Unlock()
		last := r.ramps[s.Key]
		if !drawn || s.Evidence.Ramp-last.calls == 0 || (s.Epoch == last.epoch && s.Evidence.Ramp-last.calls < b.Config().RampMinSamples) {
			continue
		}
		report := r.sign(s.Key, fleet.Report{State: s.State, Epoch: s.Epoch, Evidence: s.Evidence})
		if err := r.signal(ctx, s.Outage, probeworkflow.ReportSignal, report); err != nil {
			r.plugin.config.Logger.Debug("Reporting on a ramp failed.", "key", s.Key.String(), "error", err)
			continue
		}
		r.ramps[s.Key] = told{epoch: s.Epoch, calls: s.Evidence.Ramp}
	}
}

func (r *reporter) signal(ctx context.Context, workflowID, name string, arg any) error {
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	return r.plugin.control.SignalWorkflow(ctx, workflowID, "", name, arg)
}

// sign says whose report it is.
func (r *reporter) sign(key breaker.Key, report fleet.Report) fleet.Report {
	r.sequence = max(r.sequence+1, r.plugin.config.Clock.Now().UnixMilli())
	report.Worker, report.Sequence, report.Build = r.witness.Worker, r.sequence, r.plugin.build()
	if d, ok := r.plugin.dependency(key.Dependency); ok {
		report.TaskQueue = r.plugin.taskQueue(d.Tools[0])
	}
	return report
}
