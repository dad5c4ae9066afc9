package member

import (
	"slices"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
)

const (
	// tripRetryInterval is after how long a report of a trip is sent again that did
	// not arrive.
	tripRetryInterval = time.Second
	// suspicionLifetime is how long a suspicion lasts after the breaker last
	// confirmed it. Ticks come at least each quarter of a second, unless the machine
	// is overloaded.
	suspicionLifetime = time.Second
	// maxPollTime bounds how long a poll stops a worker from reporting unasked,
	// however far the clocks of two machines differ.
	maxPollTime = 5 * time.Minute
	// keyLifetime is how long the state of a key without news is kept.
	keyLifetime = time.Hour
)

// Reporter decides when one worker reports and what: its trips and suspicions
// unless the fleet knows already, and its answers to polls. It uses the time it is
// given and sends nothing itself, so that a simulation runs the same code as a
// worker. It is not safe for concurrent use.
type Reporter struct {
	// Worker is the worker's name.
	Worker string
	// Random gives numbers in [0, 1).
	Random func() float64
	// Breaker gives the state of a key's breaker; false where there is none.
	Breaker func(breaker.Key) (breaker.Snapshot, bool)

	keys map[breaker.Key]*keyState
}

// MessageKind is what a message is, and so where it goes.
type MessageKind int

const (
	// TripMessage and SuspicionMessage go to the outage workflow of the key, and
	// start it where none runs.
	TripMessage MessageKind = iota
	SuspicionMessage
	// HintMessage goes to the board.
	HintMessage
	// AnswerMessage goes to the outage workflow of the poll.
	AnswerMessage
)

// Message is to be sent now. Its report lacks the worker's name and sequence.
type Message struct {
	Kind   MessageKind
	Key    breaker.Key
	Report fleet.Report
	// Poll is the one answered.
	Poll fleet.Poll
}

// keyState is what a worker may have to report about a key.
type keyState struct {
	// unsentTrip is the report of a trip that no outage has received yet. It is sent
	// at sendTripAt unless the fleet knows by then.
	unsentTrip *fleet.Report
	sendTripAt time.Duration
	// lastTrip is the evidence of the last trip while the breaker is not closed.
	lastTrip *fleet.Report

	// suspicion is what the breaker said at suspectedAt. While suspicionPending, it is
	// reported at sendSuspicionAt.
	suspicion        breaker.Suspicion
	suspectedAt      time.Duration
	suspicionPending bool
	sendSuspicionAt  time.Duration
	// ineffective is how many hints and suspicions in a row had no effect, strongest
	// the strongest of them. No weaker one is sent before mutedUntil.
	ineffective int
	strongest   breaker.Suspicion
	mutedUntil  time.Duration

	// poll is the open one, nil when there is none. A worker outside its sample does
	// not answer, and reports nothing unasked either.
	poll    *fleet.Poll
	sampled bool
	// answers counts the answers sent. The next one is due at nextAnswer, and none
	// after pollExpires. round is the last poll's.
	answers                 int
	nextAnswer, pollExpires time.Duration
	round                   int64

	// rampOneIn: one in so many workers reports on the ramp.
	rampOneIn int
}

// of gives the state of a key, and makes it where there is none.
func (r *Reporter) of(key breaker.Key) *keyState {
	k := r.keys[key]
	if k == nil {
		if r.keys == nil {
			r.keys = map[breaker.Key]*keyState{}
		}
		k = &keyState{}
		r.keys[key] = k
	}
	return k
}

// Tripped takes the evidence of a breaker that this process opened. known: the
// fleet knows of this worker's trouble already, and is not told again.
func (r *Reporter) Tripped(now time.Duration, key breaker.Key, evidence fleet.Report, known bool) {
	k := r.of(key)
	k.lastTrip = &evidence
	if known {
		return
	}
	k.unsentTrip, k.sendTripAt = &evidence, now+ReportDelay(r.Random())
	if k.poll != nil {
		k.nextAnswer = min(k.nextAnswer, now+AnswerDelay(0, r.Random()))
	}
}

// Closed drops what there was to report: the breaker has closed.
func (r *Reporter) Closed(key breaker.Key) {
	if k := r.keys[key]; k != nil {
		k.unsentTrip, k.lastTrip, k.rampOneIn = nil, nil, 0
	}
}

// ForgetTrip drops an unsent trip: the fleet knows of this worker's trouble.
func (r *Reporter) ForgetTrip(key breaker.Key) {
	if k := r.keys[key]; k != nil {
		k.unsentTrip = nil
	}
}

// Suspected takes what a breaker's own window says, at each tick.
func (r *Reporter) Suspected(now time.Duration, key breaker.Key, s breaker.Suspicion) {
	k := r.of(key)
	k.suspicion, k.suspectedAt = s, now
	if !k.suspicionPending && (now >= k.mutedUntil || s > k.strongest) {
		k.sendSuspicionAt, k.suspicionPending = now+ReportDelay(r.Random()), true
	}
}

// isIdle tells whether there is nothing to report or to hold back.
func (k *keyState) isIdle() bool {
	return k.unsentTrip == nil && k.lastTrip == nil && !k.suspicionPending && k.poll == nil && k.rampOneIn <= 1
}

// isPolled tells whether a poll is open. It ends by time alone, because a
// terminated outage does not remove its poll.
func (k *keyState) isPolled(now time.Duration) bool { return k.poll != nil && now < k.pollExpires }

// TableChanged takes the board's table, at a wall-clock time. guarded tells which
// keys are this worker's.
func (r *Reporter) TableChanged(now time.Duration, wall time.Time, t fleet.Table, guarded func(breaker.Key) bool) {
	open := map[breaker.Key]bool{}
	for _, p := range t.Polls {
		if !guarded(p.Key) {
			continue
		}
		open[p.Key] = true
		if k := r.of(p.Key); p.Round > k.round {
			k.poll, k.round, k.answers, k.sampled = &p, p.Round, 0, p.Includes(r.Worker)
			k.nextAnswer = now + AnswerDelay(0, r.Random())
			k.pollExpires = now + min(max(p.Until.Sub(wall), 0), maxPollTime)
		}
	}
	for key, k := range r.keys {
		if !open[key] {
			k.poll = nil
		}
	}
	for _, e := range t.Entries {
		if !guarded(e.Key) {
			continue
		}
		if k := r.keys[e.Key]; k != nil && e.Verdict.State == breaker.Open {
			k.ineffective, k.strongest, k.mutedUntil = 0, breaker.NoSuspicion, 0
		}
		if e.Verdict.State == breaker.Recovering {
			r.of(e.Key).rampOneIn = e.OneIn
		}
	}
}

// ReportsRamp tells whether this worker is in the sample that reports on a ramp.
func (r *Reporter) ReportsRamp(s breaker.Snapshot) bool {
	k := r.keys[s.Key]
	return k == nil || fleet.Sampled(r.Worker, s.Since.UnixMilli(), k.rampOneIn)
}

// NextDue is when the next message may be due; false when there is none.
func (r *Reporter) NextDue() (time.Duration, bool) {
	var due []time.Duration
	for _, k := range r.keys {
		switch {
		case k.unsentTrip != nil && k.poll != nil:
			due = append(due, max(k.sendTripAt, k.pollExpires))
		case k.unsentTrip != nil:
			due = append(due, k.sendTripAt)
		}
		if k.suspicionPending {
			due = append(due, k.sendSuspicionAt)
		}
		if k.poll != nil && k.sampled && k.nextAnswer < k.pollExpires {
			due = append(due, k.nextAnswer)
		}
	}
	if len(due) == 0 {
		return 0, false
	}
	return slices.Min(due), true
}

// Messages gives what is due now, and counts it as sent. last asks for every
// unsent trip as well: the worker stops.
func (r *Reporter) Messages(now time.Duration, last bool) []Message {
	var all []Message
	for key, k := range r.keys {
		if k.poll != nil && now >= k.pollExpires {
			k.poll = nil
		}
		s, _ := r.Breaker(key)
		s.Key = key
		if k.unsentTrip != nil && (last || now >= k.sendTripAt && !k.isPolled(now)) {
			if s.DecidedLocally() {
				all = append(all, Message{Kind: TripMessage, Key: key, Report: *k.unsentTrip})
			}
			k.unsentTrip = nil
		}
		if k.suspicionPending && now >= k.sendSuspicionAt && !last {
			k.suspicionPending = false
			if m, ok := r.suspicion(now, k, s); ok {
				all = append(all, m)
			}
		}
		if k.isPolled(now) && k.sampled && now >= k.nextAnswer && !last {
			if m, ok := r.answer(now, k, s); ok {
				all = append(all, m)
			}
		}
		if k.isIdle() && now > k.mutedUntil+keyLifetime && now > k.suspectedAt+keyLifetime {
			delete(r.keys, key)
		}
	}
	return all
}

// SendFailed takes a message back that could not be sent. A trip is sent again:
// while this worker refuses calls by its own decision, the fleet must know.
func (r *Reporter) SendFailed(now time.Duration, m Message) {
	if k := r.of(m.Key); m.Kind == TripMessage && k.unsentTrip == nil {
		k.unsentTrip, k.sendTripAt = &m.Report, now+tripRetryInterval
	}
}

// PollEnded drops a poll whose outage workflow has ended.
func (r *Reporter) PollEnded(p fleet.Poll) {
	if k := r.keys[p.Key]; k != nil && k.poll != nil && k.poll.Round == p.Round {
		k.poll = nil
	}
}

// suspicion gives the message of a suspicion that has lasted and that no trip, poll
// or verdict has overtaken.
func (r *Reporter) suspicion(now time.Duration, k *keyState, s breaker.Snapshot) (Message, bool) {
	if now-k.suspectedAt > suspicionLifetime || k.isPolled(now) || k.unsentTrip != nil || s.State != breaker.Closed {
		return Message{}, false
	}
	k.mutedUntil = now + HintBackoff(k.ineffective)
	k.ineffective++
	k.strongest = max(k.strongest, k.suspicion)
	if k.suspicion == breaker.WeakSuspicion {
		return Message{Kind: HintMessage, Key: s.Key}, true
	}
	return Message{Kind: SuspicionMessage, Key: s.Key, Report: fleet.Report{State: s.State, Epoch: s.Epoch, Evidence: s.Evidence}}, true
}

// answer gives the answer to a poll. A worker without traffic answers once, and
// only where every worker answers.
func (r *Reporter) answer(now time.Duration, k *keyState, s breaker.Snapshot) (Message, bool) {
	first := k.answers == 0
	k.answers++
	k.nextAnswer = now + AnswerDelay(k.answers, r.Random())
	m := Message{Kind: AnswerMessage, Key: s.Key, Poll: *k.poll}
	m.Report = fleet.Report{State: s.State, Epoch: s.Epoch, Evidence: s.Evidence}
	if s.DecidedLocally() && k.lastTrip != nil {
		// The breaker's window is fresh since the trip.
		m.Report = *k.lastTrip
	}
	m.Report.Round = k.poll.Round
	return m, m.Report.Calls() > 0 || first && k.poll.IncludesAll()
}
