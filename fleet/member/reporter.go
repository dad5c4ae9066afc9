package member

import (
	"slices"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
)

const (
	// tripRetryInterval is the delay before the report of a trip is sent again after
	// an error.
	tripRetryInterval = time.Second
	// suspicionLifetime is how long a suspicion lasts after the breaker last confirmed
	// it. Ticks come at least every quarter of a second, unless the machine is
	// overloaded.
	suspicionLifetime = time.Second
	// maxPollTime bounds how long a poll stops a worker from reporting unasked. It
	// limits the effect of another machine's clock that is ahead.
	maxPollTime = 5 * time.Minute
	// keyLifetime is how long the state of an idle key is kept.
	keyLifetime = time.Hour
)

// Reporter decides what one worker reports and when: trips and suspicions that the
// fleet does not know yet, and answers to polls. It takes the time as an argument
// and sends nothing itself, so that a simulation runs the same code as a worker. It
// is not safe for concurrent use.
type Reporter struct {
	// Worker is the worker's name.
	Worker string
	// Random returns numbers in [0, 1).
	Random func() float64
	// Breaker returns the snapshot of a key's breaker; false if there is none.
	Breaker func(breaker.Key) (breaker.Snapshot, bool)

	keys map[breaker.Key]*keyState
}

// MessageKind is the kind of a message. It decides where the message goes.
type MessageKind int

const (
	// TripMessage and SuspicionMessage go to the outage workflow of the key, and start
	// it if none runs.
	TripMessage MessageKind = iota
	SuspicionMessage
	// HintMessage goes to the board.
	HintMessage
	// AnswerMessage goes to the outage workflow that started the poll.
	AnswerMessage
)

// Message is due to be sent. Its report lacks the worker's name and sequence.
type Message struct {
	Kind   MessageKind
	Key    breaker.Key
	Report fleet.Report
	// Poll is the poll that an AnswerMessage answers.
	Poll fleet.Poll
}

// keyState is the state of one key.
type keyState struct {
	// unsentTrip is the report of a trip that no outage workflow has received yet. It
	// is sent at sendTripAt, unless the fleet knows of it by then.
	unsentTrip *fleet.Report
	sendTripAt time.Duration
	// lastTrip is the evidence of the last trip while the breaker is not closed.
	lastTrip *fleet.Report

	// suspicion is the breaker's suspicion at suspectedAt. If suspicionPending, it is
	// reported at sendSuspicionAt.
	suspicion        breaker.Suspicion
	suspectedAt      time.Duration
	suspicionPending bool
	sendSuspicionAt  time.Duration
	// ineffective is how many consecutive hints and suspicions had no effect.
	// strongest is the strongest of them. Until mutedUntil, only a stronger one is
	// sent.
	ineffective int
	strongest   breaker.Suspicion
	mutedUntil  time.Duration

	// poll is the open poll, nil if there is none. A worker outside its sample neither
	// answers nor reports unasked.
	poll    *fleet.Poll
	sampled bool
	// answers counts the answers sent. The next one is due at nextAnswer. None is sent
	// after pollExpires. round is that of the last poll.
	answers                 int
	nextAnswer, pollExpires time.Duration
	round                   int64

	// rampOneIn: about one in rampOneIn workers reports on the ramp.
	rampOneIn int
}

// of returns the state of a key, and creates it if there is none.
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

// Tripped takes the evidence of a breaker that this process opened. known: this
// worker is already quarantined for the key, so the trip is not reported.
func (r *Reporter) Tripped(now time.Duration, key breaker.Key, evidence fleet.Report, known bool) {
	k := r.of(key)
	k.lastTrip = &evidence
	if known {
		return
	}
	k.unsentTrip, k.sendTripAt = &evidence, now+reportDelay(r.Random())
	if k.poll != nil {
		k.nextAnswer = min(k.nextAnswer, now+answerDelay(0, r.Random()))
	}
}

// Closed drops the trip of a breaker that has closed.
func (r *Reporter) Closed(key breaker.Key) {
	if k := r.keys[key]; k != nil {
		k.unsentTrip, k.lastTrip, k.rampOneIn = nil, nil, 0
	}
}

// ForgetTrip drops an unsent trip, because this worker is quarantined for the key.
func (r *Reporter) ForgetTrip(key breaker.Key) {
	if k := r.keys[key]; k != nil {
		k.unsentTrip = nil
	}
}

// Suspected takes the suspicion of a breaker. Each tick that raises one calls it.
func (r *Reporter) Suspected(now time.Duration, key breaker.Key, s breaker.Suspicion) {
	k := r.of(key)
	k.suspicion, k.suspectedAt = s, now
	if !k.suspicionPending && (now >= k.mutedUntil || s > k.strongest) {
		k.sendSuspicionAt, k.suspicionPending = now+reportDelay(r.Random()), true
	}
}

// isIdle returns whether there is nothing to report.
func (k *keyState) isIdle() bool {
	return k.unsentTrip == nil && k.lastTrip == nil && !k.suspicionPending && k.poll == nil && k.rampOneIn <= 1
}

// isPolled returns whether a poll is open. A poll also ends by time, because a
// terminated outage does not remove its poll.
func (k *keyState) isPolled(now time.Duration) bool { return k.poll != nil && now < k.pollExpires }

// TableChanged takes the board's new table. wall is the wall-clock time. guarded
// returns whether this worker guards a key.
func (r *Reporter) TableChanged(now time.Duration, wall time.Time, t fleet.Table, guarded func(breaker.Key) bool) {
	open := map[breaker.Key]bool{}
	for _, p := range t.Polls {
		if !guarded(p.Key) {
			continue
		}
		open[p.Key] = true
		if k := r.of(p.Key); p.Round > k.round {
			k.poll, k.round, k.answers, k.sampled = &p, p.Round, 0, p.Includes(r.Worker)
			k.nextAnswer = now + answerDelay(0, r.Random())
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

// ReportsRamp returns whether this worker is in the sample that reports on a ramp.
func (r *Reporter) ReportsRamp(s breaker.Snapshot) bool {
	k := r.keys[s.Key]
	return k == nil || fleet.Sampled(r.Worker, s.Since.UnixMilli(), k.rampOneIn)
}

// NextDue returns when the next message may be due; false if there is none.
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

// Messages returns the messages that are due now, and counts them as sent. last:
// the worker stops, so only unsent trips are due, all of them.
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

// SendFailed takes a message that could not be sent. A trip is sent again, because
// the fleet must know that this worker refuses calls by its own decision.
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

// suspicion returns the message of a suspicion that still lasts and that no trip,
// poll or verdict has replaced.
func (r *Reporter) suspicion(now time.Duration, k *keyState, s breaker.Snapshot) (Message, bool) {
	if now-k.suspectedAt > suspicionLifetime || k.isPolled(now) || k.unsentTrip != nil || s.State != breaker.Closed {
		return Message{}, false
	}
	k.mutedUntil = now + hintBackoff(k.ineffective)
	k.ineffective++
	k.strongest = max(k.strongest, k.suspicion)
	if k.suspicion == breaker.WeakSuspicion {
		return Message{Kind: HintMessage, Key: s.Key}, true
	}
	return Message{Kind: SuspicionMessage, Key: s.Key, Report: fleet.Report{State: s.State, Epoch: s.Epoch, Evidence: s.Evidence}}, true
}

// answer returns the answer to a poll. A worker without traffic answers once, and
// only if the poll includes all workers.
func (r *Reporter) answer(now time.Duration, k *keyState, s breaker.Snapshot) (Message, bool) {
	first := k.answers == 0
	k.answers++
	k.nextAnswer = now + answerDelay(k.answers, r.Random())
	m := Message{Kind: AnswerMessage, Key: s.Key, Poll: *k.poll}
	m.Report = fleet.Report{State: s.State, Epoch: s.Epoch, Evidence: s.Evidence}
	if s.DecidedLocally() && k.lastTrip != nil {
		// The trip has started a fresh window.
		m.Report = *k.lastTrip
	}
	m.Report.Round = k.poll.Round
	return m, m.Report.Calls() > 0 || first && k.poll.IncludesAll()
}
