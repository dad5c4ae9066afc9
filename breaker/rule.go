package breaker

import "time"

// Evidence is what one process knows of one key: its counts over both horizons,
// and the calls that hang. It holds no argument, no result and no error text.
type Evidence struct {
	// Window and Fast are the counts over Config.Window and Config.FastWindow.
	Window Counts `json:"window"`
	Fast   Counts `json:"fast"`
	// Hung is how many calls are in flight for longer than the latency threshold.
	Hung int `json:"hung"`
	// Ramp is how many calls have ended since the ramp began, expired ones
	// included; 0 unless recovering.
	Ramp int `json:"ramp,omitempty"`
}

// Add gives the sum of both.
func (e Evidence) Add(o Evidence) Evidence {
	return Evidence{Window: e.Window.Add(o.Window), Fast: e.Fast.Add(o.Fast), Hung: e.Hung + o.Hung, Ramp: e.Ramp + o.Ramp}
}

// Sub gives e without o.
func (e Evidence) Sub(o Evidence) Evidence {
	return Evidence{Window: e.Window.Sub(o.Window), Fast: e.Fast.Sub(o.Fast), Hung: e.Hung - o.Hung, Ramp: e.Ramp - o.Ramp}
}

// Judge tells whether e trips a breaker configured as c, and why. It is the
// one place where the trip rule stands: a breaker judges its own window by it,
// and a fleet the sum of many. c must have its defaults set.
func (c Config) Judge(e Evidence) (Reason, bool) { return c.judge(e, c.MinSamples) }

// JudgeRamp is Judge for the calls that a ramp let pass.
func (c Config) JudgeRamp(e Evidence) (Reason, bool) { return c.judge(e, c.RampMinSamples) }

func (c Config) judge(e Evidence, minSamples int) (Reason, bool) {
	for _, h := range [...]struct {
		Counts
		span time.Duration
	}{{e.Fast, c.FastWindow}, {e.Window, c.Window}} {
		if h.Samples >= minSamples && float64(h.Failures) > c.FailureRate*float64(h.Samples) {
			return Reason{Rule: RuleFailureRate, Counts: h.Counts, Hung: e.Hung, Horizon: h.span, FailureRate: c.FailureRate}, true
		}
	}
	samples, slow := e.Window.Samples+e.Hung, e.Window.Slow+e.Hung
	if samples >= minSamples && slow >= c.MinSlow && overQuantile(samples, slow, c.Quantile) {
		return Reason{Rule: RuleLatency, Counts: e.Window, Hung: e.Hung, Horizon: c.Window, Latency: c.Latency, Quantile: c.Quantile}, true
	}
	return Reason{}, false
}

// overQuantile tells whether the q-quantile of n samples, by nearest rank, is
// over the threshold that slow of them are over: slow > floor((1-q)·n). The
// quantile is taken in millionths, so that no rounding decides at the boundary.
func overQuantile(n, slow int, q float64) bool {
	const million = 1_000_000
	millionths := int64(q*million + 0.5)
	return int64(slow) > int64(n)*(million-millionths)/million
}
