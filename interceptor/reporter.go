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
	// tripAgain is after how long a trip is told again that did not arrive.
	tripAgain = time.Second
	// idle is how long a reporter sleeps that has nothing to tell.
	idle = time.Hour
)

// reporter sends evidence up: when a breaker trips or suspects something by
// itself, when the fleet is asked, and while traffic returns. A healthy process
// sends nothing.
type reporter struct {
	plugin   *Plugin
	worker   string
	random   func() float64
	interval time.Duration
	wake     chan struct{}

	mu   sync.Mutex
	keys map[breaker.Key]*dossier

	// ramps is what was last told of a key's ramp. Only run touches it.
	ramps map[breaker.Key]told
	// sequence is the last one used.
	sequence int64
}

// dossier is what a worker has to tell about a key.
type dossier struct {
	// trip is the report of a breaker that tripped and that no outage has taken
	// yet; tell is when it is sent, unless the fleet has heard of it by then.
	trip *fleet.Report
	tell time.Duration
	// tripped is the evidence of the last trip, for as long as the breaker goes by
	// it.
	tripped *fleet.Report

	// suspicion is what the breaker suspected at seen; speak is when that is said.
	suspicion   breaker.Suspicion
	seen, speak time.Duration
	// said is what was said since anything came of it: so often, the strongest of
	// it, and until when it is not said again.
	said     int
	loudest  breaker.Suspicion
	silentTo time.Duration

	// question is the one that is being answered, nil when there is none.
	question *fleet.Question
	// answered counts the answers, next is when the next one is due. round is the
	// last question's.
	answered int
	next     time.Duration
	round    int64

	// oneIn is of how many workers one reports on the ramp.
	oneIn int
}

// told is how much of a ramp the outage workflow knows.
type told struct {
	epoch int64
	calls int
}

func newReporter(p *Plugin) *reporter {
	r := &reporter{
		plugin: p, worker: identity(), random: rand.Float64, interval: time.Second, wake: make(chan struct{}, 1),
		keys: map[breaker.Key]*dossier{}, ramps: map[breaker.Key]told{},
	}
	for _, d := range p.dependencies {
		// Often enough that a step of the ramp is judged on its own calls.
		r.interval = min(r.interval, d.Breaker.RampStep/4)
	}
	return r
}

// of gives a key's dossier. r.mu is held.
func (r *reporter) of(key breaker.Key) *dossier {
	d := r.keys[key]
	if d == nil {
		d = &dossier{}
		r.keys[key] = d
	}
	return d
}

func (r *reporter) now() time.Duration { return r.plugin.config.Clock.Elapsed() }

func (r *reporter) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// tripped takes a local trip. It does not wait for the report to be delivered.
func (r *reporter) tripped(t breaker.Transition) {
	b, ok := r.plugin.breakers.Find(t.Key)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.of(t.Key)
	d.tripped = &fleet.Report{State: t.From, Epoch: b.Snapshot().Epoch, HoldOff: t.HoldOff, Evidence: t.Evidence}
	if r.plugin.alone.quarantined(t.Key) {
		// The fleet has heard of it.
		return
	}
	d.trip, d.tell = d.tripped, r.now()+fleet.SpeakAfter(r.random())
	if d.question != nil {
		d.next = min(d.next, r.now()+fleet.AnswerAfter(0, r.random()))
	}
	r.rouse()
}

// closed forgets what a breaker tripped on.
func (r *reporter) closed(key breaker.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.keys[key]; d != nil {
		d.trip, d.tripped, d.oneIn = nil, nil, 0
	}
}

// suspected takes what a breaker's own window says, with each tick.
func (r *reporter) suspected(b *breaker.Breaker, s breaker.Suspicion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, now := r.of(b.Key()), r.now()
	d.suspicion, d.seen = s, now
	if d.speak == 0 && (now >= d.silentTo || s > d.loudest) {
		d.speak = now + fleet.SpeakAfter(r.random())
		r.rouse()
	}
}

// heard takes the board's table.
func (r *reporter) heard(t fleet.Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	standing := map[breaker.Key]bool{}
	for _, q := range t.Questions {
		if _, known := r.plugin.dependency(q.Key.Dependency); !known || !q.Asks(r.worker) {
			continue
		}
		standing[q.Key] = true
		if d := r.of(q.Key); q.Round > d.round {
			d.question, d.round, d.answered = &q, q.Round, 0
			d.next = now + fleet.AnswerAfter(0, r.random())
		}
	}
	for key, d := range r.keys {
		if !standing[key] {
			d.question = nil
		}
	}
	for _, e := range t.Entries {
		if d := r.keys[e.Key]; d != nil && e.Verdict.State == breaker.Open {
			// Something came of it.
			d.said, d.loudest, d.silentTo = 0, breaker.Unsuspicious, 0
		}
		if d := r.keys[e.Key]; d != nil && r.plugin.alone.quarantined(e.Key) {
			d.trip = nil
		}
		if e.OneIn > 1 && e.Verdict.State == breaker.Recovering {
			r.of(e.Key).oneIn = e.OneIn
		}
	}
	r.rouse()
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
			r.tellTrips(context.WithoutCancel(ctx), true)
			return
		case <-ramps.C:
			r.sendRamps(ctx)
		case <-r.wake:
		case <-due.C:
		}
		r.tellTrips(ctx, false)
		r.speak(ctx)
		r.answer(ctx)
		due.Reset(r.nextDue())
	}
}

// nextDue is how long until there is something to send.
func (r *reporter) nextDue() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, next := r.now(), r.now()+idle
	for key, d := range r.keys {
		if d.trip != nil {
			next = min(next, d.tell)
		}
		if d.speak > 0 {
			next = min(next, d.speak)
		}
		if d.question != nil {
			next = min(next, d.next)
		}
		if d.trip == nil && d.speak == 0 && d.question == nil && d.tripped == nil && d.oneIn <= 1 && now >= d.silentTo && now > d.seen+time.Hour {
			delete(r.keys, key)
		}
	}
	return max(next-now, 0)
}

// due gives the keys of those dossiers for which it is time.
func (r *reporter) due(now time.Duration, is func(*dossier) bool) []breaker.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []breaker.Key
	for key, d := range r.keys {
		if is(d) {
			keys = append(keys, key)
		}
	}
	return keys
}

// tellTrips delivers the trips that are due, or all. A report that fails stays
// pending for as long as this process refuses calls on its own word. While the
// fleet is being asked the answer says it all.
func (r *reporter) tellTrips(ctx context.Context, all bool) {
	now := r.now()
	for _, key := range r.due(now, func(d *dossier) bool {
		return d.trip != nil && (all || now >= d.tell && d.question == nil)
	}) {
		r.mu.Lock()
		trip := r.keys[key].trip
		r.mu.Unlock()
		var err error
		if r.onItsOwn(key) {
			err = r.start(ctx, key, *trip)
		}
		if err != nil {
			r.plugin.config.Logger.Warn("Reporting a tripped breaker failed; it goes on alone.", "key", key.String(), "error", err)
		}
		r.mu.Lock()
		d := r.keys[key]
		switch {
		case err != nil && r.onItsOwn(key):
			d.tell = r.now() + tripAgain
		case d.trip == trip:
			d.trip = nil
		}
		r.mu.Unlock()
	}
}

// onItsOwn tells whether a key's breaker refuses calls, and no outage has told it
// to.
func (r *reporter) onItsOwn(key breaker.Key) bool {
	b, known := r.plugin.breakers.Find(key)
	if !known {
		return false
	}
	s := b.Snapshot()
	return s.State != breaker.Closed && s.Outage == ""
}

// speak says what is suspected and due: a whisper to the board, a suspicion to
// the outage workflow. Nothing is said while the fleet is being asked.
func (r *reporter) speak(ctx context.Context) {
	now := r.now()
	for _, key := range r.due(now, func(d *dossier) bool { return d.speak > 0 && now >= d.speak }) {
		r.mu.Lock()
		d := r.keys[key]
		d.speak = 0
		s := d.suspicion
		// It must have lasted, and be nobody's yet.
		if now-d.seen > 2*r.plugin.config.tick() || d.question != nil || d.trip != nil {
			r.mu.Unlock()
			continue
		}
		d.silentTo = now + fleet.WhisperAgain(d.said)
		d.said++
		d.loudest = max(d.loudest, s)
		r.mu.Unlock()
		b, known := r.plugin.breakers.Find(key)
		if !known || b.Snapshot().State != breaker.Closed {
			continue
		}
		var err error
		if s == breaker.Whisper {
			err = r.signal(ctx, fleet.BoardID, fleet.WhisperSignal, fleet.Whisper{Key: key, Worker: r.worker})
		} else {
			err = r.start(ctx, key, fleet.Report{State: breaker.Closed, Epoch: b.Snapshot().Epoch, Evidence: b.Evidence()})
		}
		if err != nil {
			r.plugin.config.Logger.Debug("Telling of a suspicion failed.", "key", key.String(), "error", err)
		}
	}
}

// answer answers the questions whose answer is due.
func (r *reporter) answer(ctx context.Context) {
	now := r.now()
	for _, key := range r.due(now, func(d *dossier) bool { return d.question != nil && now >= d.next }) {
		r.mu.Lock()
		d := r.keys[key]
		if d.question == nil {
			r.mu.Unlock()
			continue
		}
		q, first, tripped := *d.question, d.answered == 0, d.tripped
		d.answered++
		d.next = now + fleet.AnswerAfter(d.answered, r.random())
		r.mu.Unlock()

		report := fleet.Report{State: breaker.Closed}
		if r.onItsOwn(key) && tripped != nil {
			// What it tripped on is what it knows.
			report = *tripped
		} else if b, known := r.plugin.breakers.Find(key); known {
			s := b.Snapshot()
			report = fleet.Report{State: s.State, Epoch: s.Epoch, Evidence: s.Evidence}
		}
		report.Round = q.Round
		if report.Window.Samples+report.Hung == 0 && !(first && q.Everyone()) {
			continue
		}
		err := r.signal(ctx, q.Outage, probeworkflow.ReportSignal, r.sign(key, report))
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) {
			r.mu.Lock()
			if d.question != nil && d.question.Round == q.Round {
				d.question = nil
			}
			r.mu.Unlock()
		} else if err != nil {
			r.plugin.config.Logger.Debug("Answering the fleet failed.", "key", key.String(), "error", err)
		}
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
		drawn := fleet.Drawn(r.worker, s.Since.UnixMilli(), r.of(s.Key).oneIn)
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
	report.Worker, report.Sequence, report.Build = r.worker, r.sequence, r.plugin.build()
	if d, ok := r.plugin.dependency(key.Dependency); ok {
		report.TaskQueue = r.plugin.taskQueue(d.Tools[0])
	}
	return report
}
