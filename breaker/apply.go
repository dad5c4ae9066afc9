package breaker

import "time"

// Apply sets what the fleet decided. The breaker then holds that state until
// the next verdict, or until some time after that verdict was due: a stale
// verdict of open ends by itself. A verdict that is not newer than the last one
// changes nothing. While [Breaker.Force] holds the breaker, the newest verdict
// waits.
func (b *Breaker) Apply(v Verdict) {
	now := b.registry.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if v.Epoch <= b.epoch || b.evicted {
		return
	}
	b.epoch = v.Epoch
	if i := b.incident; i != nil && i.byHand {
		i.held = &v
		return
	}
	b.take(now, v)
}

func (b *Breaker) take(now time.Duration, v Verdict) {
	wall := b.registry.clock.Now()
	// How far ahead another machine's clock may put the next move.
	due := min(max(0, v.Next.Sub(wall)), 2*b.settings.MaxCooldown)
	from := b.state
	if from != v.State {
		b.enter(now, v.State, v.Reason, false)
	}
	if v.State == Closed {
		b.since = wall
		return
	}
	i := b.incident
	b.since, i.reason, i.next, i.outage = v.Since, v.Reason, v.Next, v.Outage
	switch v.State {
	case Recovering:
		if from != Recovering || i.step != v.Step {
			i.rampSince, i.rampGood = now, 0
		}
		i.step = min(max(v.Step, 0), len(b.settings.Ramp)-1)
		i.ramp.set(min(max(v.Share, 1), 100))
		i.until = now + due + (patience-1)*b.settings.RampStep
	case ForcedOpen, ForcedClosed:
		i.until = now + min(max(0, v.Next.Sub(wall)), maxForce)
	default:
		if from != v.State {
			i.opened = now
		}
		i.until = now + due + b.settings.probeTime()
	}
	b.setRefusal()
}
