package breaker

import (
	"sync"
	"sync/atomic"
	"time"
)

// patience is how many times its planned length a state lasts when neither a
// verdict nor enough calls of the ramp end it. Then the breaker moves on by itself.
const patience = 4

// Breaker is the state machine of one key in one process. Get one from
// [Registry.Get]. All methods may be called concurrently.
//
// Calls in the closed state and refusals use only gate; everything else takes the
// lock. A breaker notices the time at its ticks and at each call that takes the
// lock.
type Breaker struct {
	key      Key
	registry *Registry
	gate     atomic.Pointer[gate]

	mu       sync.Mutex
	settings *settings
	state    State
	// generation is nil while nothing has been counted since the last transition, and
	// after the counts have expired.
	generation *generation
	// incident is nil while closed.
	incident *incident
	// since is when the state was entered. During an outage it is when the outage began.
	since time.Time
	// edges counts the transitions.
	edges int64
	// round counts consecutive openings and sets the cooldown. While closed it
	// decreases by one for each MaxCooldown.
	round       int
	closedSince time.Duration
	// lastUsed is when a call last took the lock, at most one slice ago.
	lastUsed time.Duration
	// heldOff is until when the dependency wants no calls; see HoldOff.
	heldOff time.Duration
	epoch   int64
	// awake: the registry ticks this breaker. evicted: the registry has dropped it, so
	// it must not open any more, because nothing would close it.
	awake, evicted bool

	refused                    *refusedCount
	late, doneTwice, abandoned int64
	// counted is how many samples the generations before this one held.
	counted int64
}

// incident is the state of a breaker that is not closed.
type incident struct {
	reason Reason
	// refusal is published, and never modified.
	refusal *Refusal
	// until is when this state ends without a verdict. next is the time refusals give.
	until time.Duration
	next  time.Time
	// opened is when the breaker last opened.
	opened time.Duration
	outage string

	ramp rampShare
	step int
	// rampSince is when the current step began. rampGood is how many calls have
	// succeeded in it.
	rampSince time.Duration
	rampGood  int

	// byHand: an operator's Force holds the state. held is the verdict that arrived
	// meanwhile.
	byHand bool
	held   *Verdict
}

func newBreaker(key Key, s *settings, r *Registry) *Breaker {
	now := r.clock.Elapsed()
	return &Breaker{key: key, settings: s, registry: r, since: r.clock.Now(), closedSince: now, lastUsed: now}
}

// Key returns the key that this breaker guards.
func (b *Breaker) Key() Key { return b.key }

// Config returns the current configuration with its defaults set.
func (b *Breaker) Config() Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settings.Config
}

// Configure replaces the configuration. The state, the window, the calls in flight
// and the current wait stay as they are. Calls in flight keep their latency
// threshold. The error is that of [Config.Validate], and then nothing has changed.
func (b *Breaker) Configure(c Config) error {
	s, err := b.registry.compile(c)
	if err != nil {
		return err
	}
	b.configure(s)
	return nil
}

func (b *Breaker) configure(s *settings) {
	now := b.registry.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.settings == s {
		return
	}
	b.advance(now)
	b.settings = s
	if g := b.generation; g != nil {
		g.settle(now)
		g.window = g.window.reshape(now, s)
		g.ring(s.Latency)
		g.lockFrom.Store(0)
	}
	if i := b.incident; i != nil && b.state == Recovering {
		i.step = min(i.step, len(s.Ramp)-1)
		if i.outage == "" {
			i.ramp.set(s.Ramp[i.step])
		}
	}
	b.publish()
}

// Tick applies what is due by time: a cooldown that has ended, a call that has begun
// to hang. [Registry.Run] calls it.
func (b *Breaker) Tick() { b.tick() }

// tick also returns whether the breaker needs further ticks, and its suspicion.
func (b *Breaker) tick() (awake bool, suspicion Suspicion) {
	now := b.registry.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if g := b.generation; g != nil {
		g.settle(now)
		b.judge(now)
		suspicion = b.suspect(now)
		b.forget(now)
	}
	if b.refused.spread() {
		b.publish()
	}
	b.awake = b.generation != nil || b.incident != nil
	return b.awake, suspicion
}

// forget frees the memory of a closed and idle key.
func (b *Breaker) forget(now time.Duration) {
	if b.incident == nil && b.generation != nil && now >= b.lastUsed+b.settings.Window && b.generation.retire() {
		b.counted += int64(b.generation.ended)
		b.generation = nil
		b.publish()
	}
}

// activate makes sure that the breaker has a generation and is ticked. b.mu is held,
// and the state lets calls pass.
func (b *Breaker) activate(now time.Duration) *gate {
	if b.generation == nil {
		b.generation = newGeneration(now, b.settings)
		b.wake()
		return b.publish()
	}
	return b.gate.Load()
}

func (b *Breaker) wake() {
	if !b.awake && !b.evicted {
		b.awake = true
		b.registry.wake(b)
	}
}

// publish replaces the gate by one for the current state, mode and generation.
func (b *Breaker) publish() *gate {
	g := &gate{
		breaker: b, generation: b.generation, pass: passLocked,
		latency: b.settings.Latency, maxAttempts: b.settings.MaxAttemptsCounted,
	}
	if b.registry.clock != SystemClock() {
		g.clock = b.registry.clock
	}
	switch {
	case b.settings.Mode == Off:
		g.pass = passUncounted
	case b.state == Closed && b.generation == nil:
		b.gate.Store(nil)
		return nil
	case b.state == Closed:
		g.pass = passCounted
	case b.state != Recovering && b.state != ForcedClosed && b.settings.Mode != Observe:
		g.pass, g.refusal, g.refused = passNone, b.incident.refusal, b.refusals()
		g.until = b.incident.until
		g.seed, g.spreadAt = seed(g.refused.reseeds), spreadAt(g.refused.reseeds)
	}
	if b.generation != nil {
		r := b.generation.ring(b.settings.Latency)
		g.shift, g.cellMask = r.shift, uint8(len(r.cells)-1)
		copy(g.cells[:], r.cells)
		g.seed, g.spreadAt = seed(uint32(b.generation.reseeds)), spreadAt(uint32(b.generation.reseeds))
	}
	b.gate.Store(g)
	return g
}

func (b *Breaker) refusals() *refusedCount {
	if b.refused == nil {
		b.refused = new(refusedCount)
	}
	return b.refused
}

// judge trips the breaker by its own generation, which is settled at now.
func (b *Breaker) judge(now time.Duration) {
	g := b.generation
	if b.settings.Mode == Off || b.evicted {
		return
	}
	switch b.state {
	case Closed:
		e := g.evidence()
		if reason, trip := b.settings.judge(&e, b.settings.MinSamples); trip {
			b.open(now, reason)
		} else if _, pending := b.settings.judge(&e, 0); pending {
			// Only samples are missing, so the next success may trip the breaker.
			g.lockFrom.Store(0)
		} else {
			g.lockFrom.Store(int64(g.nextChange(now)))
		}
	case Recovering:
		e := g.evidence()
		if reason, trip := b.settings.judge(&e, b.settings.RampMinSamples); trip {
			b.open(now, reason)
		}
	}
}

func (b *Breaker) open(now time.Duration, reason Reason) {
	cooldown := min(b.registry.jitter(b.settings.CooldownFor(b.decayedRound(now))), b.settings.MaxCooldown)
	b.enter(now, Open, reason, true)
	b.round++
	b.incident.opened = now
	b.hold(now, max(cooldown, min(b.heldOff-now, b.settings.MaxCooldown)))
}

// decayedRound is the number of consecutive openings that count at now.
func (b *Breaker) decayedRound(now time.Duration) int {
	if b.state != Closed {
		return b.round
	}
	return max(0, b.round-int((now-b.closedSince)/b.settings.MaxCooldown))
}

// jitter changes d by up to a tenth, so that keys that opened together are not
// probed together.
func (r *Registry) jitter(d time.Duration) time.Duration {
	return d + time.Duration((r.Random()-0.5)*0.2*float64(d))
}

// HoldOff tells the breaker that the dependency wants no calls for d, as by
// Retry-After. It extends the current cooldown, or the next one if the breaker opens
// before d is over. It never shortens one, and Config.MaxCooldown limits it.
func (b *Breaker) HoldOff(d time.Duration) {
	now := b.registry.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	b.heldOff = max(b.heldOff, now+min(d, b.settings.MaxCooldown))
	if i := b.incident; b.state == Open && !i.byHand {
		if until := min(b.heldOff, i.opened+b.settings.MaxCooldown); until > i.until {
			b.hold(now, until-now)
		}
	}
}

// advance takes every transition that is due at now.
func (b *Breaker) advance(now time.Duration) {
	for b.incident != nil && now >= b.incident.until {
		due := b.incident.until
		switch b.state {
		case Open:
			if b.settings.NoProbe {
				b.enter(due, Recovering, b.incident.reason, true)
				b.rampTo(due, 0)
				break
			}
			b.enter(due, HalfOpen, b.incident.reason, true)
			b.hold(due, b.settings.probeTime())
		case HalfOpen:
			// Nobody probed, so the fleet is out of reach. The breaker recovers by the ramp.
			b.enter(due, Recovering, b.incident.reason, true)
			b.rampTo(due, 0)
		case Recovering:
			b.nextStep(due)
		case ForcedOpen, ForcedClosed:
			b.endForce(due)
		}
	}
	// Without an outage workflow, a step ends after its length and enough successes of
	// its own. The deadline above is for keys with too few calls.
	if i := b.incident; b.state == Recovering && i.outage == "" &&
		now >= i.rampSince+b.settings.RampStep && i.rampGood >= b.settings.RampMinSamples {
		b.nextStep(now)
	}
}

func (b *Breaker) nextStep(now time.Duration) {
	if b.incident.step+1 < len(b.settings.Ramp) {
		b.rampTo(now, b.incident.step+1)
		return
	}
	b.enter(now, Closed, Reason{}, true)
}

func (b *Breaker) rampTo(now time.Duration, step int) {
	i := b.incident
	i.step, i.rampSince, i.rampGood = step, now, 0
	i.ramp.set(b.settings.Ramp[step])
	b.hold(now, b.settings.RampStep)
	i.until = now + patience*b.settings.RampStep
}

// hold sets how long this state lasts.
func (b *Breaker) hold(now, d time.Duration) {
	i := b.incident
	i.until = now + d
	clock := b.registry.clock
	i.next = clock.Now().Add(i.until - clock.Elapsed())
	b.setRefusal()
}

// setRefusal publishes what refused calls return.
func (b *Breaker) setRefusal() {
	i := b.incident
	i.refusal = &Refusal{Key: b.key, State: b.state, Reason: i.reason, Since: b.since, RetryAt: i.next, Outage: i.outage}
	b.publish()
}

// enter takes one transition: it starts a fresh window and records one event. The
// caller then sets how long the new state lasts.
func (b *Breaker) enter(now time.Duration, to State, reason Reason, local bool) {
	var evidence Evidence
	if g := b.generation; g != nil {
		b.abandoned += int64(g.shut(now))
		b.counted += int64(g.ended)
		evidence = b.evidence(g)
		b.generation = nil
	}
	from := b.state
	wall := b.registry.clock.Now()
	if from == Closed {
		b.since = wall
		b.round = b.decayedRound(now)
	}
	b.state = to
	b.edges++
	if to == Closed {
		b.since, b.closedSince, b.incident = wall, now, nil
		b.publish()
	} else {
		if b.incident == nil {
			b.incident = &incident{}
		}
		b.incident.reason = reason
		b.incident.until = forever
		if to == Recovering {
			b.incident.ramp = rampShare{}
		}
		if local && to == Open {
			b.incident.outage = ""
		}
		b.wake()
	}
	b.registry.enqueue(Transition{
		Key: b.key, From: from, To: to, At: wall, Reason: reason, Evidence: evidence, HoldOff: max(0, b.heldOff-now),
		Local: local, Edge: b.edges,
	})
}

const forever = time.Duration(1<<63 - 1)

// Evidence returns the current counts of the key. While recovering, these are only
// the ramp's calls.
func (b *Breaker) Evidence() Evidence {
	now := b.registry.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.evidenceAt(now)
}

func (b *Breaker) evidenceAt(now time.Duration) Evidence {
	g := b.generation
	if g == nil {
		return Evidence{}
	}
	g.settle(now)
	return b.evidence(g)
}

func (b *Breaker) evidence(g *generation) Evidence {
	e := g.evidence()
	if b.state == Recovering {
		e.Ramp = g.ended
	}
	return e
}
