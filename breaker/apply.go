package breaker

import "time"

// Apply sets what the fleet decided. The breaker holds that state until the next
// verdict. If none comes, it moves on by itself some time after the verdict's Next,
// so that a stale verdict of open ends. A verdict whose Epoch is not greater than
// the last one's changes nothing. While [Breaker.Force] holds the breaker, the
// newest verdict is kept and takes effect afterwards.
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
	// The limit bounds the effect of another machine's clock that is ahead.
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
