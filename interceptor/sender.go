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
	"github.com/toolbreaker/toolbreaker/fleet/member"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

const (
	// signalTimeout limits one signal to the server.
	signalTimeout = 5 * time.Second
	// idle is the interval of a sender that has nothing to send.
	idle = time.Hour
)

// sender sends what the reporter decides: trips and suspicions of this process, answers to
// polls, and the calls of a ramp. A healthy process sends nothing.
type sender struct {
	plugin   *Plugin
	interval time.Duration
	wake     chan struct{}

	mu       sync.Mutex
	reporter member.Reporter

	// ramps is the last report about each key's ramp. Only run uses it.
	ramps map[breaker.Key]rampReport
	// sequence is that of the last report. Only run uses it.
	sequence int64
}

// rampReport is how much of a ramp the outage workflow knows.
type rampReport struct {
	epoch int64
	calls int
}

func newSender(p *Plugin) *sender {
	s := &sender{
		plugin: p, interval: time.Second, wake: make(chan struct{}, 1), ramps: map[breaker.Key]rampReport{},
		reporter: member.Reporter{Worker: identity(), Random: rand.Float64, Breaker: p.snapshot},
	}
	for _, d := range p.dependencies {
		// Each step of a ramp is evaluated by its own calls.
		s.interval = min(s.interval, d.Breaker.RampStep/4)
	}
	return s
}

func (s *sender) now() time.Duration { return s.plugin.config.Clock.Elapsed() }

// update changes the reporter and wakes run, which sends what is due.
func (s *sender) update(change func(r *member.Reporter, now time.Duration)) {
	s.mu.Lock()
	change(&s.reporter, s.now())
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// tripped handles a trip of this process.
func (s *sender) tripped(t breaker.Transition) {
	snapshot, ok := s.plugin.snapshot(t.Key)
	if !ok {
		return
	}
	s.update(func(r *member.Reporter, now time.Duration) {
		r.Tripped(now, t.Key, fleet.Report{State: t.From, Epoch: snapshot.Epoch, HoldOff: t.HoldOff, Evidence: t.Evidence},
			s.plugin.quarantine.active(t.Key))
	})
}

// closed handles the closing of a breaker.
func (s *sender) closed(key breaker.Key) {
	s.update(func(r *member.Reporter, _ time.Duration) { r.Closed(key) })
}

// suspected handles a breaker's suspicion, at each tick.
func (s *sender) suspected(b *breaker.Breaker, suspicion breaker.Suspicion) {
	s.update(func(r *member.Reporter, now time.Duration) { r.Suspected(now, b.Key(), suspicion) })
}

// tableChanged handles a new table of the board.
func (s *sender) tableChanged(t fleet.Table) {
	s.update(func(r *member.Reporter, now time.Duration) {
		r.TableChanged(now, s.plugin.config.Clock.Now(), t, func(key breaker.Key) bool {
			_, known := s.plugin.dependency(key.Dependency)
			return known
		})
		for _, e := range t.Entries {
			if s.plugin.quarantine.active(e.Key) {
				r.ForgetTrip(e.Key)
			}
		}
	})
}

// run sends what is due, until ctx is done. Then it sends the remaining trips, each with
// its own deadline.
func (s *sender) run(ctx context.Context) {
	ramps := time.NewTicker(s.interval)
	defer ramps.Stop()
	due := time.NewTimer(idle)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			s.sendDue(context.WithoutCancel(ctx), true)
			return
		case <-ramps.C:
			s.sendRamps(ctx)
		case <-s.wake:
		case <-due.C:
		}
		s.sendDue(ctx, false)
		due.Reset(s.untilDue())
	}
}

// untilDue returns the time until a message may be due.
func (s *sender) untilDue() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	due, ok := s.reporter.NextDue()
	if !ok {
		return idle
	}
	return max(due-s.now(), 0)
}

// sendDue sends the messages that are due.
func (s *sender) sendDue(ctx context.Context, last bool) {
	s.mu.Lock()
	messages := s.reporter.Messages(s.now(), last)
	s.mu.Unlock()
	for _, m := range messages {
		err := s.send(ctx, m)
		var notFound *serviceerror.NotFound
		switch {
		case err == nil:
		case m.Kind == member.AnswerMessage && errors.As(err, &notFound):
			s.update(func(r *member.Reporter, _ time.Duration) { r.PollEnded(m.Poll) })
		case m.Kind == member.TripMessage:
			s.plugin.config.Logger.Warn("A tripped breaker could not be reported to the fleet. It stays open in this process and is reported again.",
				"key", m.Key.String(), "error", err)
			s.mu.Lock()
			s.reporter.SendFailed(s.now(), m)
			s.mu.Unlock()
		default:
			s.plugin.config.Logger.Debug("A message to the fleet could not be sent.", "key", m.Key.String(), "error", err)
		}
	}
}

func (s *sender) send(ctx context.Context, m member.Message) error {
	switch m.Kind {
	case member.HintMessage:
		return s.signal(ctx, fleet.BoardID, fleet.HintSignal, fleet.Hint{Key: m.Key, Worker: s.reporter.Worker})
	case member.AnswerMessage:
		return s.signal(ctx, m.Poll.Outage, probeworkflow.ReportSignal, s.sign(m.Key, m.Report))
	default:
		return s.signalWithStart(ctx, m.Key, m.Report)
	}
}

// signalWithStart sends a report to the key's outage workflow, and starts that if it does
// not run.
func (s *sender) signalWithStart(ctx context.Context, key breaker.Key, report fleet.Report) error {
	settings, err := s.plugin.settings(key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	o := probeworkflow.StartOutage(key, s.plugin.config.TaskQueue)
	_, err = s.plugin.control.SignalWithStartWorkflow(ctx, o.ID, probeworkflow.ReportSignal, s.sign(key, report),
		o, probeworkflow.OutageWorkflow, probeworkflow.OutageInput{Settings: settings})
	return err
}

// sendRamps reports the calls of ramps to their outage workflows: the first calls of each
// step, and again after each RampMinSamples more. In a large fleet only a sample of the
// workers reports.
func (s *sender) sendRamps(ctx context.Context) {
	for _, b := range s.plugin.breakers.All() {
		snapshot := b.Snapshot()
		if snapshot.State != breaker.Recovering || snapshot.Outage == "" {
			delete(s.ramps, snapshot.Key)
			continue
		}
		s.mu.Lock()
		sampled := s.reporter.ReportsRamp(snapshot)
		s.mu.Unlock()
		last, calls := s.ramps[snapshot.Key], snapshot.Evidence.Ramp
		if !sampled || calls == last.calls || (snapshot.Epoch == last.epoch && calls-last.calls < b.Config().RampMinSamples) {
			continue
		}
		report := s.sign(snapshot.Key, fleet.Report{State: snapshot.State, Epoch: snapshot.Epoch, Evidence: snapshot.Evidence})
		if err := s.signal(ctx, snapshot.Outage, probeworkflow.ReportSignal, report); err != nil {
			s.plugin.config.Logger.Debug("The calls of a ramp could not be reported.", "key", snapshot.Key.String(), "error", err)
			continue
		}
		s.ramps[snapshot.Key] = rampReport{epoch: snapshot.Epoch, calls: calls}
	}
}

func (s *sender) signal(ctx context.Context, workflowID, name string, arg any) error {
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	return s.plugin.control.SignalWorkflow(ctx, workflowID, "", name, arg)
}

// sign adds this worker's name, build and task queue to a report, and the next sequence.
func (s *sender) sign(key breaker.Key, report fleet.Report) fleet.Report {
	s.sequence = max(s.sequence+1, s.plugin.config.Clock.Now().UnixMilli())
	report.Worker, report.Sequence, report.Build = s.reporter.Worker, s.sequence, s.plugin.registrations.build()
	if d, ok := s.plugin.dependency(key.Dependency); ok {
		report.TaskQueue = s.plugin.registrations.taskQueue(d.Tools[0])
	}
	return report
}
