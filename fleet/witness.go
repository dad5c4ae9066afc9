package fleet

import (
	"slices"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

const (
	// tripAgain is after how long a trip is told again that did not arrive.
	tripAgain = time.Second
	// lasting is for how long after a breaker last said so a suspicion holds: ticks
	// come at least each quarter of a second, where the machine keeps up.
	lasting = time.Second
)

// Witness decides when one worker speaks, and of what: of its trips and
// suspicions unless the fleet knows already, and when it is asked. It decides by
// the time that it is given and sends nothing itself, so that a simulation runs
// the same code as a worker. It is not safe for concurrent use.
type Witness struct {
	// Worker is the worker's name.
	Worker string
	// Random gives numbers in [0, 1).
	Random func() float64
	// Breaker gives the state of a key's breaker; false where there is none.
	Breaker func(breaker.Key) (breaker.Snapshot, bool)

	keys map[breaker.Key]*dossier
}

// Kind is what a statement is.
type Kind int

const (
	// SayTripped and SaySuspicious are for the outage workflow of the key, and start
	// one where none runs.
	SayTripped Kind = iota
	SaySuspicious
	// SayWhisper is for the board.
	SayWhisper
	// SayAnswer is for the outage workflow that asks.
	SayAnswer
)

// Statement is something to be sent now. Its report lacks the worker's signature.
type Statement struct {
	Kind   Kind
	Key    breaker.Key
	Report Report
	// Question is the one answered.
	Question Question
}

// dossier is what a worker has to tell about a key.
type dossier struct {
	// trip is the report of a breaker that tripped and that no outage has taken
	// yet; tell is when it is sent, unless the fleet has heard of it by then.
	trip *Report
	tell time.Duration
	// tripped is the evidence of the last trip, for as long as the breaker goes by
	// it.
	tripped *Report

	// suspicion is what the breaker suspected at seen; speak is when that is said,
	// where speaking.
	suspicion   breaker.Suspicion
	seen, speak time.Duration
	speaking    bool
	// said is how often something was said since anything came of it, loudest the
	// strongest of it, and silentTo until when it is not said again.
	said     int
	loudest  breaker.Suspicion
	silentTo time.Duration

	// question is the one that the fleet is asked, nil when there is none; drawn says
	// that this worker answers it. All others hold their tongue as well.
	question *Question
	drawn    bool
	// answered counts the answers, next is when the next one is due, expires when
	// nobody waits for one any more. round is the last question's.
	answered      int
	next, expires time.Duration
	round         int64

	// oneIn is of how many workers one reports on the ramp.
	oneIn int
}

func (w *Witness) of(key breaker.Key) *dossier {
	d := w.keys[key]
	if d == nil {
		if w.keys == nil {
			w.keys = map[breaker.Key]*dossier{}
		}
		d = &dossier{}
		w.keys[key] = d
	}
	return d
}

// Tripped takes the evidence of a breaker that has opened by itself. known says
// that the fleet has heard of this worker's trouble.
func (w *Witness) Tripped(now time.Duration, key breaker.Key, evidence Report, known bool) {
	d := w.of(key)
	d.tripped = &evidence
	if known {
		return
	}
	d.trip, d.tell = &evidence, now+SpeakAfter(w.Random())
	if d.question != nil {
		d.next = min(d.next, now+AnswerAfter(0, w.Random()))
	}
}

// Closed takes that a breaker has closed: there is nothing to tell any more.
func (w *Witness) Closed(key breaker.Key) {
	if d := w.keys[key]; d != nil {
		d.trip, d.tripped, d.oneIn = nil, nil, 0
	}
}

// Known takes that the fleet knows of this worker's trouble with a key.
func (w *Witness) Known(key breaker.Key) {
	if d := w.keys[key]; d != nil {
		d.trip = nil
	}
}

// Suspected takes what a breaker's own window says, with each tick.
func (w *Witness) Suspected(now time.Duration, key breaker.Key, s breaker.Suspicion) {
	d := w.of(key)
	d.suspicion, d.seen = s, now
	if !d.speaking && (now >= d.silentTo || s > d.loudest) {
		d.speak, d.speaking = now+SpeakAfter(w.Random()), true
	}
}

// idle tells whether there is nothing to tell, nor to hold back.
func (d *dossier) idle() bool {
	return d.trip == nil && d.tripped == nil && !d.speaking && d.question == nil && d.oneIn <= 1
}

// asked tells whether the fleet is being asked. A question stands for a bounded
// time: an outage that was terminated takes none back.
func (d *dossier) asked(now time.Duration) bool { return d.question != nil && now < d.expires }

// maxQuestion bounds for how long a question keeps a worker from speaking by
// itself, whatever the clocks of two machines make of it.
const maxQuestion = 5 * time.Minute

// Heard takes the board's table, at a wall-clock time. guarded tells which keys
// are this worker's.
func (w *Witness) Heard(now time.Duration, wall time.Time, t Table, guarded func(breaker.Key) bool) {
	standing := map[breaker.Key]bool{}
	for _, q := range t.Questions {
		if !guarded(q.Key) {
			continue
		}
		standing[q.Key] = true
		if d := w.of(q.Key); q.Round > d.round {
			d.question, d.round, d.answered, d.drawn = &q, q.Round, 0, q.Asks(w.Worker)
			d.next = now + AnswerAfter(0, w.Random())
			d.expires = now + min(max(q.Until.Sub(wall), 0), maxQuestion)
		}
	}
	for key, d := range w.keys {
		if !standing[key] {
			d.question = nil
		}
	}
	for _, e := range t.Entries {
		if !guarded(e.Key) {
			continue
		}
		if d := w.keys[e.Key]; d != nil && e.Verdict.State == breaker.Open {
			// Something came of it.
			d.said, d.loudest, d.silentTo = 0, breaker.Unsuspicious, 0
		}
		if e.Verdict.State == breaker.Recovering {
			w.of(e.Key).oneIn = e.OneIn
		}
	}
}

// OnRamp tells whether this worker is one of those that report on a ramp.
func (w *Witness) OnRamp(s breaker.Snapshot) bool {
	d := w.keys[s.Key]
	return d == nil || Drawn(w.Worker, s.Since.UnixMilli(), d.oneIn)
}

// Due is when the next statement may be due; false when there is none.
func (w *Witness) Due() (time.Duration, bool) {
	var due []time.Duration
	for _, d := range w.keys {
		switch {
		case d.trip != nil && d.question != nil:
			due = append(due, max(d.tell, d.expires))
		case d.trip != nil:
			due = append(due, d.tell)
		}
		if d.speaking {
			due = append(due, d.speak)
		}
		if d.question != nil && d.drawn && d.next < d.expires {
			due = append(due, d.next)
		}
	}
	if len(due) == 0 {
		return 0, false
	}
	return slices.Min(due), true
}

// Statements gives what is to be said now, and takes it as said. last asks for
// every trip not told yet: the worker stops.
func (w *Witness) Statements(now time.Duration, last bool) []Statement {
	var all []Statement
	for key, d := range w.keys {
		if d.question != nil && now >= d.expires {
			d.question = nil
		}
		s, _ := w.Breaker(key)
		s.Key = key
		if d.trip != nil && (last || now >= d.tell && !d.asked(now)) {
			if s.OnItsOwn() {
				all = append(all, Statement{Kind: SayTripped, Key: key, Report: *d.trip})
			}
			d.trip = nil
		}
		if d.speaking && now >= d.speak && !last {
			d.speaking = false
			if said, ok := w.suspicion(now, d, s); ok {
				all = append(all, said)
			}
		}
		if d.asked(now) && d.drawn && now >= d.next && !last {
			if answer, ok := w.answer(now, d, s); ok {
				all = append(all, answer)
			}
		}
		if d.idle() && now > d.silentTo+time.Hour && now > d.seen+time.Hour {
			delete(w.keys, key)
		}
	}
	return all
}

// Failed takes back a trip that did not arrive: for as long as this worker
// refuses calls on its own word somebody must hear of it.
func (w *Witness) Failed(now time.Duration, s Statement) {
	if d := w.of(s.Key); s.Kind == SayTripped && d.trip == nil {
		d.trip, d.tell = &s.Report, now+tripAgain
	}
}

// Gone takes that nobody waits for answers to a question any more.
func (w *Witness) Gone(q Question) {
	if d := w.keys[q.Key]; d != nil && d.question != nil && d.question.Round == q.Round {
		d.question = nil
	}
}

// suspicion is what is said of one that has lasted and is nobody's yet.
func (w *Witness) suspicion(now time.Duration, d *dossier, s breaker.Snapshot) (Statement, bool) {
	if now-d.seen > lasting || d.asked(now) || d.trip != nil || s.State != breaker.Closed {
		return Statement{}, false
	}
	d.silentTo = now + WhisperAgain(d.said)
	d.said++
	d.loudest = max(d.loudest, d.suspicion)
	if d.suspicion == breaker.Whisper {
		return Statement{Kind: SayWhisper, Key: s.Key}, true
	}
	return Statement{Kind: SaySuspicious, Key: s.Key, Report: Report{State: s.State, Epoch: s.Epoch, Evidence: s.Evidence}}, true
}

// answer is what this worker has seen. Without traffic it speaks only where
// everyone does, and once.
func (w *Witness) answer(now time.Duration, d *dossier, s breaker.Snapshot) (Statement, bool) {
	first := d.answered == 0
	d.answered++
	d.next = now + AnswerAfter(d.answered, w.Random())
	said := Statement{Kind: SayAnswer, Key: s.Key, Question: *d.question}
	said.Report = Report{State: s.State, Epoch: s.Epoch, Evidence: s.Evidence}
	if s.OnItsOwn() && d.tripped != nil {
		// What it tripped on is what it knows.
		said.Report = *d.tripped
	}
	said.Report.Round = d.question.Round
	return said, said.Report.Window.Samples+said.Report.Hung > 0 || first && d.question.Everyone()
}
