package breaker

import "time"

// Call describes a call to [Breaker.Allow]. The zero Call is a first attempt with the
// default latency threshold.
type Call struct {
	// Attempt is the attempt of the activity execution, from 1. 0 means 1. Attempts
	// after Config.MaxAttemptsCounted are admitted alike, but are no samples.
	Attempt int
	// Tool is the tool's name, to find its threshold in Config.ToolLatency. A tool
	// without one has the threshold Config.Latency.
	Tool string
}

// Permit is an admitted call. Call [Permit.Done] exactly once. A permit that is never
// done counts as a hanging call until the next transition, and afterwards as
// Abandoned in [Snapshot]. It blocks nothing.
//
// A Permit must be used by one goroutine at a time and must not be copied. A copy that
// is also done adds at most one sample. The methods of the zero Permit do nothing.
type Permit struct {
	// A Permit has four words, because the compiler keeps no more in registers.

	// gate is the one that admitted the call.
	gate *gate
	// word counts the call while it is in flight. It is nil when the call is not counted.
	word *word
	// begun is alreadyDone after Done.
	begun time.Duration
	// limit is the call's latency threshold.
	limit limit
}

type limit struct {
	_ noCopy
	time.Duration
}

// noCopy makes go vet report a copied permit.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

const alreadyDone time.Duration = -1

// Allow admits a call or refuses it. With a refusal the permit is the zero Permit;
// otherwise the refusal is nil.
//
// Refused calls are counted, but are neither samples nor latencies. Allow allocates
// nothing. While closed it reads the clock once and does one compare-and-swap; while
// open or half-open it does one compare-and-swap.
func (b *Breaker) Allow(call Call) (Permit, *Refusal) {
	g := b.gate.Load()
	switch {
	case g == nil:
	case g.pass == passCounted && call.Tool == "" && call.Attempt <= g.maxAttempts:
		var now time.Duration // not g.now(), which is too large to be inlined
		if g.clock == nil {
			now = time.Since(processStart)
		} else {
			now = g.clock.Elapsed()
		}
		slot := slotAt(now+g.latency, g.shift)
		w := &g.cell()[place(slot)]
		tag := tagOf(slot)
		for old := w.Load(); hasTag(old, tag) && canBegin(old); old = w.Load() {
			if w.CompareAndSwap(old, old+inflightOne) {
				return Permit{gate: g, word: w, begun: now, limit: limit{Duration: g.latency}}, nil
			}
			if g.generation.collisions.Add(1) >= g.spreadAt {
				break
			}
		}
		return b.allow(now, call)
	case g.pass == passNone:
		if g.refused.add(g.seed)%refusalsToLook == 0 {
			g.look()
		}
		return Permit{}, g.refusal
	case g.pass == passUncounted:
		return Permit{gate: g, begun: g.now()}, nil
	}
	return b.allow(b.registry.clock.Elapsed(), call)
}

// refusalsToLook is how many refusals pass before one reads the clock, so that a
// breaker without ticks still advances.
const refusalsToLook = 64

// allow is Allow with the lock.
func (b *Breaker) allow(now time.Duration, call Call) (Permit, *Refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	switch {
	case b.settings.Mode == Off:
	case b.state == Closed, b.state == ForcedClosed,
		b.state == Recovering && b.incident.ramp.admit(now, b.settings.RampStep/2):
		return b.admit(now, call), nil
	default:
		b.refusals().add(firstSeed)
		if b.settings.Mode != Observe {
			return Permit{}, b.incident.refusal
		}
	}
	// The mode is Off, or it is Observe and would have refused.
	if b.gate.Load() == nil {
		b.publish()
	}
	return Permit{gate: b.gate.Load(), begun: now}, nil
}

// admit counts a call in flight. b.mu is held.
func (b *Breaker) admit(now time.Duration, call Call) Permit {
	b.lastUsed = max(b.lastUsed, now)
	g := b.activate(now)
	if call.Attempt > b.settings.MaxAttemptsCounted {
		return Permit{gate: g, begun: now}
	}
	latency := b.settings.LatencyOf(call.Tool)
	r := g.generation.ring(latency)
	if g.generation.collisions.Load() >= g.spreadAt {
		if len(r.cells) < maxCells {
			r.spread()
		} else {
			g.generation.reseeds++
		}
		g.generation.collisions.Store(0)
		g = b.publish()
	}
	g.generation.see(now)
	w := r.begin(slotOf(now, latency), g.seed)
	return Permit{gate: g, word: w, begun: now, limit: limit{Duration: latency}}
}

// Done ends the call with its outcome. Only the first Done counts as a sample; further
// ones are only counted in [Snapshot]. The same holds for an outcome that arrives
// after a transition.
func (p *Permit) Done(outcome Outcome) {
	g := p.gate
	if g == nil {
		return
	}
	begun := p.begun
	p.begun = alreadyDone
	if begun == alreadyDone {
		g.breaker.countDoneTwice()
		return
	}
	w, latency := p.word, p.limit.Duration
	if w == nil {
		return
	}
	var now time.Duration
	if g.clock == nil {
		now = time.Since(processStart)
	} else {
		now = g.clock.Elapsed()
	}
	took := now - begun
	if outcome == Success && took <= latency && int64(now) < g.generation.lockFrom.Load() {
		// Nearly every call has the default threshold, and needs no lookup.
		shift := g.shift
		if latency != g.latency {
			shift = slotShift(latencyClass(latency))
		}
		tag := tagOf(slotAt(begun+latency, shift))
		for old := w.Load(); hasTag(old, tag) && canEndWell(old); old = w.Load() {
			if w.CompareAndSwap(old, old+endedOne-inflightOne) {
				if before := endedOf(old); before < recordedEach {
					g.generation.latencies.add(took, 1)
				} else if before%recordedOneIn == 0 {
					g.generation.latencies.add(took, recordedOneIn)
				}
				return
			}
			g.generation.collisions.Add(1)
		}
	}
	g.breaker.finish(ended{g.generation, w, slotOf(begun, latency), took, latency, outcome}, now)
}

// ended describes a call that has just ended.
type ended struct {
	generation *generation
	word       *word
	slot       int64
	took       time.Duration
	latency    time.Duration
	outcome    Outcome
}

func (b *Breaker) countDoneTwice() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doneTwice++
}

// finish is Done for an outcome that may trip the breaker.
func (b *Breaker) finish(call ended, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	g := call.generation
	if g != b.generation {
		b.late++
		b.abandoned = max(0, b.abandoned-1)
		return
	}
	g.settle(now)
	inFlight, hung := g.ring(call.latency).end(call.word, call.slot)
	if !inFlight {
		b.doneTwice++
		return
	}
	g.inFlight--
	if hung {
		g.hung--
	}
	b.lastUsed = max(b.lastUsed, now)
	slow := call.took > call.latency
	if call.outcome != Ignored || slow {
		counts := Counts{Samples: 1}
		if call.outcome == Failure {
			counts.Failures = 1
		}
		if slow {
			counts.Slow = 1
		}
		g.count(counts)
		g.latencies.add(call.took, 1)
		if counts.Failures+counts.Slow > 0 {
			g.bad = min(g.bad+1, strongInARow)
		} else {
			g.good(now)
		}
		if b.state == Recovering && call.outcome == Success && !slow {
			b.incident.rampGood++
		}
	}
	b.judge(now)
}

// Latency returns how long the call has been running, 0 for the zero Permit and after
// Done.
func (p *Permit) Latency() time.Duration {
	if p.gate == nil || p.begun == alreadyDone {
		return 0
	}
	return p.gate.now() - p.begun
}
