package interceptor

import (
	"slices"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
)

// apply applies the verdicts of the board, including those for keys that this process has
// not called yet.
func (p *Plugin) apply(t fleet.Table) {
	for _, e := range t.Entries {
		d, ok := p.dependency(e.Key.Dependency)
		if !ok {
			continue
		}
		b := p.breakers.Get(e.Key, d.Breaker)
		if e.Dismissed && slices.Contains(e.Outliers, p.sender.reporter.Worker) && b.Snapshot().DecidedLocally() {
			p.quarantine.begin(e.Key, e.Verdict.Epoch)
			continue
		}
		b.Apply(e.Verdict)
		if e.Verdict.State != breaker.Closed {
			// The dependency is down for the fleet, so this worker is no outlier.
			p.quarantine.end(e.Key)
		}
	}
	p.sender.tableChanged(t)
}

// suspected handles a breaker's suspicion, at each tick.
func (p *Plugin) suspected(b *breaker.Breaker, s breaker.Suspicion) {
	p.sender.suspected(b, s)
	if d, ok := p.dependency(b.Key().Dependency); ok {
		// The number of other workers is then known in time for a trip.
		p.quarantine.othersPoll(p.registrations.taskQueue(d.Tools[0]))
	}
}

// transition handles each transition of each breaker, in order.
func (p *Plugin) transition(t breaker.Transition) {
	fields := []any{"dependency", t.Key.Dependency, "region", t.Key.Region, "from", t.From.String(), "to", t.To.String()}
	switch {
	case t.To == breaker.Open && t.From != breaker.HalfOpen:
		p.config.Logger.Warn("Breaker opened.", append(fields, "reason", t.Reason.String())...)
	default:
		p.config.Logger.Info("Breaker changed state.", fields...)
	}
	switch {
	case t.Local && t.To == breaker.Open:
		p.sender.tripped(t)
	case t.To == breaker.Closed:
		p.sender.closed(t.Key)
		p.quarantine.end(t.Key)
	}
	if p.config.OnTransition != nil {
		p.config.OnTransition(t)
	}
}
