package breaker

import (
	"errors"
	"fmt"
	"time"
)

// maxForce bounds how long a forced state lasts, so that a forgotten one ends.
const maxForce = 7 * 24 * time.Hour

// Force is an operator's decision about one breaker.
type Force struct {
	// State is [ForcedOpen] or [ForcedClosed].
	State State
	// By is who decided, and Note is why. Both are required.
	By, Note string
	// For is how long the state lasts: more than 0, at most 7 days.
	For time.Duration
}

func (f Force) validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if f.State != ForcedOpen && f.State != ForcedClosed {
		wrong("State: %v is not one of %v, %v", f.State, ForcedOpen, ForcedClosed)
	}
	if f.By == "" {
		wrong("By: is missing; say who decided")
	}
	if f.Note == "" {
		wrong("Note: is missing; say why")
	}
	if f.For <= 0 || f.For > maxForce {
		wrong("For: %v is out of range; over 0 and at most %v", f.For, maxForce)
	}
	return errors.Join(errs...)
}

// Force holds the breaker in a forced state until it expires or [Breaker.Release]
// ends it. Outcomes and verdicts do not change the state meanwhile. A second Force
// replaces the first. The error names every mistake in f, and then nothing has
// changed.
//
// Forced open is followed by the ramp, forced closed by closed. If a verdict arrived
// meanwhile, that verdict follows instead.
func (b *Breaker) Force(f Force) error {
	if err := f.validate(); err != nil {
		return err
	}
	now := b.registry.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.evicted {
		return errors.New("the breaker has been evicted; get it again from its registry")
	}
	b.advance(now)
	reason := Reason{Rule: RuleForced, By: f.By, Note: f.Note}
	if b.state != f.State {
		b.enter(now, f.State, reason, true)
	}
	i := b.incident
	i.reason, i.byHand = reason, true
	b.hold(now, f.For)
	return nil
}

// Release ends a forced state. It returns whether there was one.
func (b *Breaker) Release() bool {
	now := b.registry.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if b.incident == nil || !b.incident.byHand {
		return false
	}
	b.endForce(now)
	return true
}

// endForce leaves a forced state.
func (b *Breaker) endForce(now time.Duration) {
	i := b.incident
	held := i.held
	i.byHand, i.held = false, nil
	switch {
	case held != nil:
		b.take(now, *held)
	case b.state == ForcedOpen:
		b.enter(now, Recovering, i.reason, true)
		b.rampTo(now, 0)
	default:
		b.enter(now, Closed, Reason{}, true)
	}
}
