package breaker

import "time"

// Snapshot describes a breaker at one moment.
type Snapshot struct {
	Key   Key   `json:"key"`
	State State `json:"state"`
	Mode  Mode  `json:"mode"`
	// Since is when the state was entered. During an outage it is when the outage began.
	Since time.Time `json:"since"`
	// Reason is why the breaker tripped. It is zero while closed.
	Reason Reason `json:"reason"`
	// Evidence holds the counts of both horizons and the calls that hang now.
	Evidence Evidence `json:"evidence"`
	// FailureRate is the share of failed calls in the window, 0 without calls.
	FailureRate float64 `json:"failure_rate"`
	// Latency holds the latencies of the window's calls.
	Latency Latencies `json:"latency"`
	// Share is the percentage of calls let pass: 100 closed, 0 open or half-open.
	Share int `json:"share"`
	// Next is when this state is due to end; while open, the time of the next probe. It
	// is zero while closed.
	Next time.Time `json:"next"`
	// Epoch is that of the newest verdict, 0 before the first.
	Epoch  int64  `json:"epoch"`
	Outage string `json:"outage,omitempty"`
	// Edges is how many transitions this breaker has taken.
	Edges int64 `json:"edges"`
	// InFlight is how many counted calls of this state have not ended. Abandoned is how
	// many of earlier states have not. A value that stays is a leak of permits.
	InFlight  int   `json:"in_flight"`
	Abandoned int64 `json:"abandoned"`
	// Counted, Refused, Late and DoneTwice count over the breaker's life: samples; calls
	// refused (in [Observe], calls that would have been); outcomes that arrived after a
	// transition; and permits done more than once.
	Counted   int64 `json:"counted"`
	Refused   int64 `json:"refused"`
	Late      int64 `json:"late"`
	DoneTwice int64 `json:"done_twice"`
}

// Latencies summarises a distribution for display; no rule uses it. P50, P90 and P99
// are within 5 % of the true value from 0.13 ms to 9 minutes. They cover the newest
// half to whole window. On a key with more than 256 calls in a sixteenth of the
// latency threshold, one in 128 of the further calls is recorded.
type Latencies struct {
	P50 time.Duration `json:"p50_ns"`
	P90 time.Duration `json:"p90_ns"`
	P99 time.Duration `json:"p99_ns"`
	// Max is the longest latency recorded, exactly.
	Max time.Duration `json:"max_ns"`
}

// Snapshot returns the breaker's current state and counts.
func (b *Breaker) Snapshot() Snapshot {
	now := b.registry.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.evidenceAt(now)
	s := Snapshot{
		Key: b.key, State: b.state, Mode: b.settings.Mode, Since: b.since,
		Evidence: e, FailureRate: e.Window.failureRate(),
		Epoch: b.epoch, Edges: b.edges, Counted: b.counted,
		Refused: b.refused.sum(), Late: b.late, DoneTwice: b.doneTwice, Abandoned: b.abandoned,
	}
	if i := b.incident; i != nil {
		s.Reason, s.Next, s.Outage = i.reason, i.next, i.outage
	}
	switch b.state {
	case Closed, ForcedClosed:
		s.Share = 100
	case Recovering:
		s.Share = b.incident.ramp.share
	}
	if g := b.generation; g != nil {
		s.InFlight = int(g.inFlight)
		s.Counted += int64(g.ended)
		d := g.latencies.distribution()
		s.Latency = Latencies{P50: d.Quantile(0.5), P90: d.Quantile(0.9), P99: d.Quantile(0.99), Max: d.Max()}
	}
	return s
}

// DecidedLocally reports whether the breaker is not closed and has no outage workflow.
func (s Snapshot) DecidedLocally() bool { return s.State != Closed && s.Outage == "" }

// Observation is what a breaker counted over its window, as input of [Suggest].
type Observation struct {
	Counts
	// Latencies cover the newest half to whole window.
	Latencies Distribution
}

// Observe returns the current window as input of [Suggest]. Take one per
// Config.Window.
func (b *Breaker) Observe() Observation {
	now := b.registry.clock.Elapsed()
	b.mu.Lock()
	defer b.mu.Unlock()
	o := Observation{Counts: b.evidenceAt(now).Window}
	if b.generation != nil {
		o.Latencies = b.generation.latencies.distribution()
	}
	return o
}
