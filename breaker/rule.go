package breaker

import "math"

// Evidence is what one process has counted for one key: its counts over both horizons
// and its hanging calls. It holds no arguments, results or error texts.
type Evidence struct {
	// Window and Fast are the counts over Config.Window and Config.FastWindow.
	Window Counts `json:"window"`
	Fast   Counts `json:"fast"`
	// Hung is how many calls have been in flight for longer than the latency threshold.
	Hung int `json:"hung"`
	// Ramp is how many calls have ended since the ramp began, including expired ones.
	// It is 0 except while recovering.
	Ramp int `json:"ramp,omitempty"`
}

// Add returns the sum of e and o.
func (e Evidence) Add(o Evidence) Evidence {
	return Evidence{Window: e.Window.add(o.Window), Fast: e.Fast.add(o.Fast), Hung: e.Hung + o.Hung, Ramp: e.Ramp + o.Ramp}
}

// Sub returns e without o.
func (e Evidence) Sub(o Evidence) Evidence {
	return Evidence{Window: e.Window.sub(o.Window), Fast: e.Fast.sub(o.Fast), Hung: e.Hung - o.Hung, Ramp: e.Ramp - o.Ramp}
}

// Judge reports whether e trips a breaker with configuration c, and why. A breaker
// applies it to its own window, and a fleet to the sum of its workers. c must have its
// defaults set.
//
// A value equal to its limit does not trip: half of the calls failing is not over a
// FailureRate of 0.5.
func (c Config) Judge(e Evidence) (Reason, bool) { return c.judge(&e, c.MinSamples) }

// JudgeRamp is Judge for the calls of a ramp, with the minimum RampMinSamples.
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

// Shares are compared in millionths, so that a decimal limit is exact: 0.29 of 100
// calls are 29, not 28.999999999999996.
const million = 1_000_000

func millionths(share float64) int64 { return int64(math.Round(share * million)) }

func overRate(c Counts, limit float64) bool {
	return int64(c.Failures)*million > int64(c.Samples)*millionths(limit)
}

// allowedOver is how many of n samples may be over the threshold while the q-quantile
// by nearest rank is not: n - ceil(q·n) = floor((1-q)·n).
func allowedOver(n int, q float64) int {
	return int(int64(n) * (million - millionths(q)) / million)
}

// overQuantile reports whether the q-quantile of n samples is over the threshold, when
// slow of them are over it.
func overQuantile(n, slow int, q float64) bool { return slow > allowedOver(n, q) }
