package breaker

import "math"

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
//
// Both limits must be passed, not reached: half the calls failing is not over
// a FailureRate of 0.5.
func (c Config) Judge(e Evidence) (Reason, bool) { return c.judge(&e, c.MinSamples) }

// JudgeRamp is Judge for the calls that a ramp let pass.
func (c Config) JudgeRamp(e Evidence) (Reason, bool) { return c.judge(&e, c.RampMinSamples) }

func (c *Config) judge(e *Evidence, minSamples int) (Reason, bool) {
	if e.Fast.Samples >= minSamples && overRate(e.Fast, c.FailureRate) {
		return Reason{Rule: RuleFailureRate, Counts: e.Fast, Hung: e.Hung, Horizon: c.FastWindow, FailureRate: c.FailureRate}, true
	}
	if e.Window.Samples >= minSamples && overRate(e.Window, c.FailureRate) {
		return Reason{Rule: RuleFailureRate, Counts: e.Window, Hung: e.Hung, Horizon: c.Window, FailureRate: c.FailureRate}, true
	}
	samples, slow := e.Window.Samples+e.Hung, e.Window.Slow+e.Hung
	if samples >= minSamples && slow >= c.MinSlow && overQuantile(samples, slow, c.Quantile) {
		return Reason{Rule: RuleLatency, Counts: e.Window, Hung: e.Hung, Horizon: c.Window, Latency: c.Latency, Quantile: c.Quantile}, true
	}
	return Reason{}, false
}

// Shares are taken in millionths, so that a limit which is written in decimals
// is compared without rounding: 0.29 of 100 calls are 29, not 28.999999999999996.
const million = 1_000_000

func millionths(share float64) int64 { return int64(math.Round(share * million)) }

func overRate(c Counts, limit float64) bool {
	return int64(c.Failures)*million > int64(c.Samples)*millionths(limit)
}

// allowedOver is how many of n samples may lie over a threshold that the
// q-quantile, by nearest rank, does not pass: n - ceil(q·n) = floor((1-q)·n).
func allowedOver(n int, q float64) int {
	return int(int64(n) * (million - millionths(q)) / million)
}

// overQuantile tells whether the q-quantile of n samples lies over the
// threshold that slow of them lie over.
func overQuantile(n, slow int, q float64) bool { return slow > allowedOver(n, q) }
