package model

import (
	"fmt"
	"math/bits"
	"sort"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// clock moves only when a test moves it. Its wall clock can jump.
type clock struct {
	elapsed time.Duration
	jumped  time.Duration
}

var epoch = time.Date(2026, 12, 1, 14, 0, 0, 0, time.UTC)

func (c *clock) Elapsed() time.Duration { return c.elapsed }
func (c *clock) Now() time.Time         { return epoch.Add(c.elapsed + c.jumped) }

// call is an admitted call.
type call struct {
	permit breaker.Permit
	// counted: the call is in flight for the reference until ended.
	counted, ended bool
	generation     int
	begun, limit   time.Duration
}

// sample is a counted outcome.
type sample struct {
	at     time.Duration
	took   time.Duration
	limit  time.Duration
	failed bool
}

// reference is a simple implementation of the specification.
type reference struct {
	clock  *clock
	config breaker.Config
	// random is every random number.
	random float64
	// rate and quantile are those of the configuration, in thousandths.
	rate, quantile int

	state      breaker.State
	generation int
	samples    []sample
	inflight   []*call
	ended      int

	reason      breaker.Reason
	until       time.Duration
	next        time.Time
	round       int
	closedSince time.Duration
	opened      time.Duration
	heldOff     time.Duration
	epoch       int64
	outage      string
	byHand      bool
	held        *breaker.Verdict

	step, share, credit int
	stepSince           time.Duration
	stepGood            int
	lastAdmitted        time.Duration
	admitted            bool

	edges, refused, late, doneTwice, abandoned int64
}

func (r *reference) width() time.Duration { return r.config.Window / 60 }

func (r *reference) within(span time.Duration) []sample {
	width := r.width()
	full := int64(span / width)
	if span%width != 0 {
		full++
	}
	full = min(full, 60)
	var in []sample
	for _, s := range r.samples {
		if int64(s.at/width) >= int64(r.clock.elapsed/width)-full {
			in = append(in, s)
		}
	}
	return in
}

func count(samples []sample) breaker.Counts {
	var c breaker.Counts
	for _, s := range samples {
		c.Samples++
		if s.failed {
			c.Failures++
		}
		if s.took > s.limit {
			c.Slow++
		}
	}
	return c
}

// hung returns how many calls hang: the slot of their threshold has ended. A slot
// is a sixteenth of the largest power of two up to the threshold.
func (r *reference) hung() int {
	n := 0
	for _, c := range r.inflight {
		slot := time.Duration(1) << (bits.Len64(uint64(c.limit)) - 1) / 16
		if (c.begun+c.limit)/slot < r.clock.elapsed/slot {
			n++
		}
	}
	return n
}

func (r *reference) evidence() breaker.Evidence {
	e := breaker.Evidence{
		Window: count(r.within(r.config.Window)), Fast: count(r.within(r.config.FastWindow)), Hung: r.hung(),
	}
	if r.state == breaker.Recovering {
		e.Ramp = r.ended
	}
	return e
}

// tripped applies the rules to the sorted latencies.
func (r *reference) tripped(minimum int) (breaker.Reason, bool) {
	e := r.evidence()
	for _, h := range []struct {
		breaker.Counts
		span time.Duration
	}{{e.Fast, r.config.FastWindow}, {e.Window, r.config.Window}} {
		if h.Samples >= minimum && h.Failures*1000 > r.rate*h.Samples {
			return breaker.Reason{
				Rule: breaker.RuleFailureRate, Counts: h.Counts, Hung: e.Hung, Horizon: h.span,
				FailureRate: r.config.FailureRate,
			}, true
		}
	}
	// Each latency is divided by its own threshold. That of a hung call is greater
	// than any.
	var latencies []float64
	for _, s := range r.within(r.config.Window) {
		latencies = append(latencies, float64(s.took)/float64(s.limit))
	}
	for range e.Hung {
		latencies = append(latencies, 1e9)
	}
	sort.Float64s(latencies)
	n, slow := len(latencies), 0
	for _, l := range latencies {
		if l > 1 {
			slow++
		}
	}
	rank := (r.quantile*n + 999) / 1000
	if n >= minimum && slow >= r.config.MinSlow && n > 0 && latencies[rank-1] > 1 {
		return breaker.Reason{
			Rule: breaker.RuleLatency, Counts: e.Window, Hung: e.Hung, Horizon: r.config.Window,
			Latency: r.config.Latency, Quantile: r.config.Quantile,
		}, true
	}
	return breaker.Reason{}, false
}

func (r *reference) judge() {
	if r.config.Mode == breaker.Off {
		return
	}
	minimum := r.config.MinSamples
	switch r.state {
	case breaker.Closed:
	case breaker.Recovering:
		minimum = r.config.RampMinSamples
	default:
		return
	}
	reason, trip := r.tripped(minimum)
	if !trip {
		return
	}
	cooldown := r.config.Cooldown
	for range r.decayed() {
		cooldown = min(2*cooldown, r.config.MaxCooldown)
	}
	r.enter(breaker.Open, reason)
	r.round++
	r.outage = ""
	now := r.clock.elapsed
	r.opened = now
	cooldown += time.Duration((r.random - 0.5) * 0.2 * float64(cooldown))
	r.hold(now, min(max(cooldown, r.heldOff-now), r.config.MaxCooldown))
}

// decayed returns how many consecutive openings still count.
func (r *reference) decayed() int {
	if r.state != breaker.Closed {
		return r.round
	}
	return max(0, r.round-int((r.clock.elapsed-r.closedSince)/r.config.MaxCooldown))
}

func (r *reference) hold(now, d time.Duration) {
	r.until = now + d
	r.next = r.clock.Now().Add(r.until - r.clock.elapsed)
}

func (r *reference) enter(to breaker.State, reason breaker.Reason) {
	r.enterAt(r.clock.elapsed, to, reason)
}

func (r *reference) enterAt(now time.Duration, to breaker.State, reason breaker.Reason) {
	r.round = r.decayed()
	r.abandoned += int64(len(r.inflight))
	r.state, r.reason = to, reason
	r.samples, r.inflight, r.ended = nil, nil, 0
	r.generation++
	r.edges++
	if to == breaker.Closed {
		r.closedSince = now
		r.reason, r.next, r.outage = breaker.Reason{}, time.Time{}, ""
		r.byHand, r.held = false, nil
	}
	if to == breaker.Recovering {
		r.step, r.share, r.credit, r.admitted = 0, 0, 0, false
	}
}

func (r *reference) probeTime() time.Duration {
	return 4 * time.Duration(r.config.ProbeSuccesses) * (r.config.Latency + r.config.ProbeInterval)
}

func (r *reference) setShare(share int) {
	if r.share != share {
		r.share, r.credit = share, 100-share
	}
}

func (r *reference) startStep(at time.Duration, step int) {
	r.step, r.stepSince, r.stepGood = step, at, 0
	r.setShare(r.config.Ramp[step])
	r.hold(at, r.config.RampStep)
	r.until = at + 4*r.config.RampStep
}

func (r *reference) nextStep(at time.Duration) {
	if r.step+1 < len(r.config.Ramp) {
		r.startStep(at, r.step+1)
		return
	}
	r.enterAt(at, breaker.Closed, breaker.Reason{})
}

// advance takes every transition that is due.
func (r *reference) advance() {
	now := r.clock.elapsed
	for r.state != breaker.Closed && now >= r.until {
		due := r.until
		switch {
		case r.state == breaker.Open && !r.config.NoProbe:
			r.enterAt(due, breaker.HalfOpen, r.reason)
			r.hold(due, r.probeTime())
		case r.state == breaker.Open || r.state == breaker.HalfOpen:
			r.enterAt(due, breaker.Recovering, r.reason)
			r.startStep(due, 0)
		case r.state == breaker.Recovering:
			r.nextStep(due)
		default:
			r.endForce(due)
		}
	}
	if r.state == breaker.Recovering && r.outage == "" &&
		now >= r.stepSince+r.config.RampStep && r.stepGood >= r.config.RampMinSamples {
		r.nextStep(now)
	}
}

func (r *reference) endForce(at time.Duration) {
	held := r.held
	r.byHand, r.held = false, nil
	switch {
	case held != nil:
		r.take(at, *held)
	case r.state == breaker.ForcedOpen:
		r.enterAt(at, breaker.Recovering, r.reason)
		r.startStep(at, 0)
	default:
		r.enterAt(at, breaker.Closed, breaker.Reason{})
	}
}

func (r *reference) take(now time.Duration, v breaker.Verdict) {
	from := r.state
	if from != v.State {
		r.enterAt(now, v.State, v.Reason)
	}
	if v.State == breaker.Closed {
		return
	}
	ahead := max(0, v.Next.Sub(r.clock.Now()))
	due := min(ahead, 2*r.config.MaxCooldown)
	r.reason, r.next, r.outage = v.Reason, v.Next, v.Outage
	switch v.State {
	case breaker.Recovering:
		if from != breaker.Recovering || r.step != v.Step {
			r.stepSince, r.stepGood = now, 0
		}
		r.step = min(v.Step, len(r.config.Ramp)-1)
		r.setShare(v.Share)
		r.until = now + due + 3*r.config.RampStep
	case breaker.ForcedOpen, breaker.ForcedClosed:
		r.until = now + min(ahead, 7*24*time.Hour)
	default:
		if from != v.State {
			r.opened = now
		}
		r.until = now + due + r.probeTime()
	}
}

func (r *reference) apply(v breaker.Verdict) {
	r.advance()
	if v.Epoch <= r.epoch {
		return
	}
	r.epoch = v.Epoch
	if r.byHand {
		r.held = &v
		return
	}
	r.take(r.clock.elapsed, v)
}

func (r *reference) force(f breaker.Force) {
	r.advance()
	reason := breaker.Reason{Rule: breaker.RuleForced, By: f.By, Note: f.Note}
	if r.state != f.State {
		r.enter(f.State, reason)
	}
	r.reason, r.byHand = reason, true
	r.hold(r.clock.elapsed, f.For)
}

func (r *reference) release() bool {
	r.advance()
	if !r.byHand {
		return false
	}
	r.endForce(r.clock.elapsed)
	return true
}

func (r *reference) holdOff(d time.Duration) {
	r.advance()
	now := r.clock.elapsed
	r.heldOff = max(r.heldOff, now+min(d, r.config.MaxCooldown))
	if until := min(r.heldOff, r.opened+r.config.MaxCooldown); r.state == breaker.Open && until > r.until {
		r.hold(now, until-now)
	}
}

// configure keeps the state and the samples. With a new slice width, each sample is
// in the middle of its old slice.
func (r *reference) configure(c settings) {
	if r.config.Window == c.Window && fmt.Sprint(r.config) == fmt.Sprint(c.Config) {
		return
	}
	r.advance()
	r.samples = r.within(r.config.Window)
	for i, s := range r.samples {
		r.samples[i].at = min(s.at/r.width()*r.width()+r.width()/2, r.clock.elapsed)
	}
	r.config, r.rate, r.quantile = c.Config, c.rate, c.quantile
	r.samples = r.within(r.config.Window)
	if r.state == breaker.Recovering {
		r.step = min(r.step, len(r.config.Ramp)-1)
		if r.outage == "" {
			r.setShare(r.config.Ramp[r.step])
		}
	}
}

func (r *reference) tick() {
	r.advance()
	r.judge()
}

// allow returns whether the call passes, and whether it is counted.
func (r *reference) allow(attempt int) (passes, counted bool) {
	if r.config.Mode == breaker.Off {
		return true, false
	}
	blocked := r.state == breaker.Open || r.state == breaker.HalfOpen || r.state == breaker.ForcedOpen
	if !blocked || r.config.Mode == breaker.Observe {
		r.advance()
		blocked = r.state == breaker.Open || r.state == breaker.HalfOpen || r.state == breaker.ForcedOpen
	}
	if blocked || r.state == breaker.Recovering && !r.rampAdmits() {
		r.refused++
		return r.config.Mode == breaker.Observe, false
	}
	return true, attempt <= r.config.MaxAttemptsCounted
}

func (r *reference) rampAdmits() bool {
	r.credit += r.share
	quiet := r.admitted && r.clock.elapsed-r.lastAdmitted >= r.config.RampStep/2
	if r.credit < 100 && !quiet {
		return false
	}
	r.credit = max(r.credit-100, -100)
	r.admitted, r.lastAdmitted = true, r.clock.elapsed
	return true
}

func (r *reference) begin(c *call) {
	c.generation, c.begun = r.generation, r.clock.elapsed
	r.inflight = append(r.inflight, c)
}

func (r *reference) done(c *call, outcome breaker.Outcome) {
	if c.ended {
		r.doneTwice++
		return
	}
	c.ended = true
	if !c.counted {
		return
	}
	r.advance()
	if c.generation != r.generation {
		r.late++
		r.abandoned--
		return
	}
	for i := range r.inflight {
		if r.inflight[i] == c {
			r.inflight = append(r.inflight[:i:i], r.inflight[i+1:]...)
			break
		}
	}
	took := r.clock.elapsed - c.begun
	slow := took > c.limit
	if outcome != breaker.Ignored || slow {
		r.samples = append(r.samples, sample{
			at: r.clock.elapsed, took: took, limit: c.limit, failed: outcome == breaker.Failure,
		})
		r.ended++
		if outcome == breaker.Success && !slow {
			r.stepGood++
		}
	}
	r.judge()
}
