package breaker

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how many times its due length a state is held while the fleet's
// next word, or the ramp's evidence, fails to come. Then the breaker moves on
// by itself.
const patience = 4

// Breaker is the state machine of one key in one process. All methods may be
// called concurrently. Make one with [Registry.Get].
type Breaker struct {
	key   Key
	clock Clock
	// notify takes each transition in order. It is called with mu held and must
	// neither block nor call back.
	notify func(Transition)

	mu       sync.Mutex
	config   Config
	state    State
	window   window
	inflight inflight
	// generation grows with each transition. A permit of an older one is late.
	generation uint64
	// until is when this state ends by time alone. Unused while closed.
	until time.Duration
	// since and next are until and its start on the wall clock, for people.
	since, next time.Time
	reason      Reason
	refusal     *Refusal
	// round counts openings in a row; it decides the cooldown and decays while
	// closed, by one for each healthy MaxCooldown.
	round       int
	closedSince time.Duration

	ramp rampShare
	step int
	// rampEnded counts the calls that ended since the ramp began, rampAtStep
	// those at the beginning of the running step.
	rampEnded, rampAtStep int
	// rampSince is when the running step began.
	rampSince time.Duration

	epoch  int64
	outage string

	refused, late, doneTwice int64
}

func newBreaker(key Key, config Config, clock Clock, notify func(Transition)) *Breaker {
	b := &Breaker{key: key, clock: clock, notify: notify, config: config.WithDefaults()}
	b.since = clock.Now()
	b.closedSince = clock.Elapsed()
	b.fresh()
	return b
}

// Key is what this breaker guards.
func (b *Breaker) Key() Key { return b.key }

// Config is the configuration in force, defaults set.
func (b *Breaker) Config() Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.config
}

// Permit is an admitted call. Give it back with [Permit.Done] exactly once; a
// permit that is never given back counts as a hanging call until the next
// transition, and can wedge nothing.
type Permit struct {
	breaker    *Breaker
	generation uint64
	begun      time.Duration
	slot       int64
	uncounted  bool
	done       atomic.Bool
}

// Allow admits a call or refuses it. Exactly one of the results is nil.
// attempt counts from 1 over the retries of one execution: attempts beyond
// Config.MaxAttemptsCounted are admitted as the others are, and leave no sample.
func (b *Breaker) Allow(attempt int) (*Permit, *Refusal) {
	now := b.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if b.state == Open || b.state == HalfOpen ||
		b.state == Recovering && !b.ramp.admit(now, b.config.RampStep/2) {
		b.refused++
		return nil, b.refusal
	}
	p := &Permit{breaker: b, generation: b.generation, begun: now, uncounted: attempt > b.config.MaxAttemptsCounted}
	if !p.uncounted {
		p.slot = b.inflight.begin(now)
	}
	return p, nil
}

// Done hands the permit back with what the call said about the dependency.
// Only the first Done counts.
func (p *Permit) Done(outcome Outcome) {
	b := p.breaker
	now := b.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.done.Swap(true) {
		b.doneTwice++
		return
	}
	b.advance(now)
	if p.generation != b.generation {
		b.late++
		return
	}
	if p.uncounted {
		return
	}
	b.inflight.end(p.slot)
	counts := Counts{Samples: 1}
	if outcome == Failure {
		counts.Failures = 1
	}
	if now-p.begun > b.config.Latency {
		counts.Slow = 1
	} else if outcome == Ignored {
		return
	}
	b.window.record(now, counts)
	if b.state == Recovering {
		b.rampEnded++
	}
	b.judge(now)
}

// Latency is how long the call has been running.
func (p *Permit) Latency() time.Duration { return p.breaker.clock.Elapsed() - p.begun }

// Tick takes the moves that time alone brings: a cooldown that has run out, a
// call that has begun to hang. [Registry.Run] calls it.
func (b *Breaker) Tick() {
	now := b.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	b.judge(now)
}

// Evidence is what the breaker knows of its key now: in recovering, the ramp's
// calls alone.
func (b *Breaker) Evidence() Evidence {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.evidence(b.clock.Elapsed())
}

// Snapshot describes the breaker. It changes nothing.
func (b *Breaker) Snapshot() Snapshot {
	now := b.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Snapshot{
		Key: b.key, State: b.state, Since: b.since, Reason: b.reason, Evidence: b.evidence(now),
		Next: b.next, Epoch: b.epoch, Outage: b.outage, InFlight: b.inflight.total(),
		Refused: b.refused, Late: b.late, DoneTwice: b.doneTwice,
	}
	switch b.state {
	case Closed:
		s.Share = 100
	case Recovering:
		s.Share = b.ramp.share
	}
	return s
}

// Apply sets what the fleet decided. The breaker then holds that state until
// the next verdict, or until some time after that verdict was due. A verdict
// that is not newer than the last one changes nothing.
func (b *Breaker) Apply(v Verdict) {
	now, wall := b.clock.Elapsed(), b.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if v.Epoch <= b.epoch {
		return
	}
	b.epoch, b.outage = v.Epoch, v.Outage
	due := max(0, v.Next.Sub(wall))
	from := b.state
	if from != v.State {
		b.enter(now, v.State, v.Reason, false)
	}
	b.since, b.reason, b.next = v.Since, v.Reason, v.Next
	switch v.State {
	case Closed:
		b.reason, b.next, b.outage = Reason{}, time.Time{}, ""
		b.since = wall
		return
	case Recovering:
		if from != Recovering || b.step != v.Step {
			b.rampSince = now
		}
		b.step = min(max(v.Step, 0), len(b.config.Ramp)-1)
		b.ramp.set(min(max(v.Share, 1), 100))
		b.until = now + due + (patience-1)*b.config.RampStep
	default:
		b.until = now + min(due, 2*b.config.MaxCooldown) + b.probeTime()
	}
	b.setRefusal()
}

// probeTime bounds how long a round of probes may take before a breaker that
// hears nothing goes on alone.
func (b *Breaker) probeTime() time.Duration {
	c := b.config
	return patience * time.Duration(c.ProbeSuccesses) * (c.Latency + c.ProbeInterval)
}

func (b *Breaker) evidence(now time.Duration) Evidence {
	return Evidence{
		Window: b.window.newest(now, b.config.Window),
		Fast:   b.window.newest(now, b.config.FastWindow),
		Hung:   b.inflight.hung(now),
		Ramp:   b.rampEnded,
	}
}

// judge trips the breaker when its own window says so.
func (b *Breaker) judge(now time.Duration) {
	var reason Reason
	var trip bool
	switch b.state {
	case Closed:
		reason, trip = b.config.Judge(b.evidence(now))
	case Recovering:
		reason, trip = b.config.JudgeRamp(b.evidence(now))
	}
	if trip {
		b.open(now, reason)
	}
}

func (b *Breaker) open(now time.Duration, reason Reason) {
	cooldown := jitter(b.config.CooldownFor(b.round))
	b.round++
	b.enter(now, Open, reason, true)
	b.hold(now, cooldown)
}

// jitter spreads d by a tenth to either side, so that keys which opened
// together are not probed together.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

// advance takes every move whose time has come.
func (b *Breaker) advance(now time.Duration) {
	for b.state != Closed && now >= b.until {
		switch b.state {
		case Open:
			b.enter(b.until, HalfOpen, b.reason, true)
			b.hold(b.until, b.probeTime())
		case HalfOpen:
			// Nobody probed: the fleet is out of reach. Fail open, by the ramp.
			b.enter(b.until, Recovering, b.reason, true)
			b.rampTo(b.until, 0)
		case Recovering:
			b.nextStep(b.until)
		}
	}
	// With no word from a fleet, a step ends once its own calls have shown the
	// dependency healthy for the step's length; the deadline above is for keys
	// too quiet to show anything.
	if b.state == Recovering && b.outage == "" && now >= b.rampSince+b.config.RampStep &&
		b.rampEnded-b.rampAtStep >= b.config.RampMinSamples {
		b.nextStep(now)
	}
}

func (b *Breaker) nextStep(now time.Duration) {
	if b.step+1 < len(b.config.Ramp) {
		b.rampTo(now, b.step+1)
	} else {
		b.enter(now, Closed, Reason{}, true)
	}
}

func (b *Breaker) rampTo(now time.Duration, step int) {
	b.step, b.rampSince, b.rampAtStep = step, now, b.rampEnded
	b.ramp.set(b.config.Ramp[step])
	b.hold(now, b.config.RampStep)
	b.until = now + patience*b.config.RampStep
}

// hold sets when this state is due to end.
func (b *Breaker) hold(now, d time.Duration) {
	b.until = now + d
	b.next = b.clock.Now().Add(b.until - b.clock.Elapsed())
	b.setRefusal()
}

func (b *Breaker) setRefusal() {
	b.refusal = &Refusal{Key: b.key, State: b.state, Reason: b.reason, Since: b.since, RetryAt: b.next, Outage: b.outage}
}

// enter takes one edge: a fresh window, a new generation, one event.
func (b *Breaker) enter(now time.Duration, to State, reason Reason, local bool) {
	evidence, from := b.evidence(now), b.state
	if from == Closed {
		b.since = b.clock.Now()
		if healthy := now - b.closedSince; healthy > 0 {
			b.round = max(0, b.round-int(healthy/b.config.MaxCooldown))
		}
	}
	if to == Closed {
		b.since, b.next = b.clock.Now(), time.Time{}
		b.closedSince = now
		b.outage, b.refusal = "", nil
	}
	if local && to == Open {
		b.outage = ""
	}
	b.state, b.reason = to, reason
	b.generation++
	b.fresh()
	b.notify(Transition{
		Key: b.key, From: from, To: to, At: b.clock.Now(), Reason: reason, Evidence: evidence, Local: local,
	})
}

func (b *Breaker) fresh() {
	b.window = newWindow(b.config.Window)
	b.inflight = newInflight(b.config.Latency)
	b.rampEnded, b.rampAtStep = 0, 0
}
