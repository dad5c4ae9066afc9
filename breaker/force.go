package breaker

import (
	"errors"
	"fmt"
	"time"
)

// maxForce bounds how long a forced state lasts, so that one that everybody has
// forgotten ends.
const maxForce = 7 * 24 * time.Hour

// Force is an operator's decision about one breaker.
type Force struct {
	// State is [ForcedOpen] or [ForcedClosed].
	State State
	// By is who decided, and Note why; both are needed.
	By, Note string
	// For is how long it holds: over 0, at most 7 days.
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

// Force holds the breaker in a forced state, whatever outcomes and verdicts say,
// until it expires or [Breaker.Release] ends it. Forcing again replaces what was
// forced before. The error names every mistake in f; nothing has changed then.
//
// Forced open ends by the ramp, forced closed in closed, and either in what the
// fleet has decided meanwhile.
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

// Release ends what [Breaker.Force] began, and tells whether there was anything
// to end.
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
