package breaker

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Config is how a breaker of one dependency judges. Every zero value means the
// default named at its field, so that Config{} is a conservative breaker.
// [Config.Validate] names all mistakes at once. Durations lie between 10 ms and
// a year.
//
// As JSON and YAML each field is written in lower case with underscores
// (fast_window), durations as text ("2s"), and fields that are not known are
// refused.
type Config struct {
	// Mode says how much the breaker may do. Default [Enforce].
	Mode Mode
	// Window is the rolling time over which outcomes are judged, in 60 slices.
	// Default 60 s.
	Window time.Duration
	// FastWindow is the newest part of Window, over which the failure rule is
	// judged as well. Default Window/6.
	//
	// Over a minute alone, a dependency that fails every call at once is half
	// of the window only after 30 s of steady traffic. A sixth of it is half full
	// after 5 s to 5.5 s: soon enough for an outage, and a blip of 3 s is 27 to
	// 30 % of it. A twelfth would be half full after 2.5 s and so take that blip
	// for an outage; a third would need 10 s.
	FastWindow time.Duration
	// FailureRate is the share of failed calls over which the breaker trips,
	// in (0, 1). It trips when the rate is over it, not at it. Default 0.5.
	FailureRate float64
	// Latency is the threshold of the latency rule, and the age at which a call
	// in flight counts as slow. A call must be over it. Default 5 s.
	Latency time.Duration
	// ToolLatency holds the thresholds of tools that differ, by name: a label
	// takes longer than a status. All tools count into one breaker. Optional.
	ToolLatency map[string]time.Duration
	// Quantile is the latency quantile compared with Latency, in [0.5, 0.999].
	// Default 0.99.
	Quantile float64
	// MinSamples is how many calls a horizon must hold before it can trip.
	// Default 10.
	MinSamples int
	// MinSlow is how many slow calls the latency rule needs besides MinSamples:
	// under 100 samples the p99 is the maximum, and one straggler must not
	// trip. Default 3.
	MinSlow int
	// Cooldown is how long the breaker stays open before the first probes. It
	// doubles with each further round of the same outage. Default 30 s.
	Cooldown time.Duration
	// MaxCooldown caps the doubling. Default 5 minutes, or Cooldown if longer.
	MaxCooldown time.Duration
	// ProbeSuccesses is how many probes in a row must succeed. Default 3.
	ProbeSuccesses int
	// ProbeInterval is the pause between two probes. Default Latency/5, at least
	// 10 ms.
	ProbeInterval time.Duration
	// Ramp is the percentages by which traffic returns, rising. Default
	// 10, 25, 50, 100.
	Ramp []int
	// RampStep is how long each step of the ramp lasts. Default 15 s.
	RampStep time.Duration
	// RampMinSamples is how many calls the ramp must have let pass before it
	// can trip again. Default 5.
	RampMinSamples int
	// MaxAttemptsCounted is how many attempts of one activity execution are
	// counted, so that a run whose own input is poisoned cannot trip a
	// dependency by being retried. Default 3.
	MaxAttemptsCounted int
	// NoProbe says outright that no synthetic call exists: the cooldown then leads
	// into the ramp.
	NoProbe bool
	// IgnorePanics makes a tool's panic say nothing about the dependency. By
	// default it is a failure.
	IgnorePanics bool
	// FailOnRateLimit makes a rate-limited call (429) a failure. By default it says
	// nothing about the dependency: it is up, and asks for a slower pace.
	FailOnRateLimit bool
}

// WithDefaults gives c with each zero value replaced by its default.
func (c Config) WithDefaults() Config {
	if c.Mode == "" {
		c.Mode = Enforce
	}
	setDuration(&c.Window, time.Minute)
	setDuration(&c.FastWindow, max(c.Window/6, min(c.Window, minDuration)))
	setDuration(&c.Latency, 5*time.Second)
	setDuration(&c.Cooldown, 30*time.Second)
	setDuration(&c.MaxCooldown, max(5*time.Minute, c.Cooldown))
	setDuration(&c.ProbeInterval, max(c.Latency/5, minDuration))
	setDuration(&c.RampStep, 15*time.Second)
	setInt(&c.MinSamples, 10)
	setInt(&c.MinSlow, 3)
	setInt(&c.ProbeSuccesses, 3)
	setInt(&c.RampMinSamples, 5)
	setInt(&c.MaxAttemptsCounted, 3)
	if c.FailureRate == 0 {
		c.FailureRate = 0.5
	}
	if c.Quantile == 0 {
		c.Quantile = 0.99
	}
	if len(c.Ramp) == 0 {
		c.Ramp = []int{10, 25, 50, 100}
	}
	return c
}

func setDuration(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}

func setInt(n *int, v int) {
	if *n == 0 {
		*n = v
	}
}

const (
	// minDuration keeps a window's slices and the ring of calls in flight wide
	// enough to mean something.
	minDuration = 10 * time.Millisecond
	// maxDuration keeps sums of durations from overflowing.
	maxDuration = 365 * 24 * time.Hour
)

// Validate checks c as it stands after [Config.WithDefaults] and names every
// mistake, each with its field, joined by [errors.Join].
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if err := c.Mode.validate(); err != nil {
		wrong("Mode: %v", err)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"Window", c.Window}, {"FastWindow", c.FastWindow}, {"Latency", c.Latency},
		{"Cooldown", c.Cooldown}, {"MaxCooldown", c.MaxCooldown},
		{"ProbeInterval", c.ProbeInterval}, {"RampStep", c.RampStep},
	} {
		if d.value < minDuration {
			wrong("%s: %v is too short; at least %v", d.field, d.value, minDuration)
		}
		if d.value > maxDuration {
			wrong("%s: %v is too long; at most %v", d.field, d.value, maxDuration)
		}
	}
	for _, tool := range slices.Sorted(maps.Keys(c.ToolLatency)) {
		if d := c.ToolLatency[tool]; d < minDuration || d > maxDuration {
			wrong("ToolLatency[%s]: %v is out of range; %v to %v", tool, d, minDuration, maxDuration)
		}
	}
	if c.FastWindow > c.Window {
		wrong("FastWindow: %v is longer than Window, %v", c.FastWindow, c.Window)
	}
	if c.MaxCooldown < c.Cooldown {
		wrong("MaxCooldown: %v is shorter than Cooldown, %v", c.MaxCooldown, c.Cooldown)
	}
	if !(millionths(c.FailureRate) > 0 && c.FailureRate < 1) {
		wrong("FailureRate: %v is out of range; a share between 0 and 1, exclusive, such as 0.5", c.FailureRate)
	}
	if !(c.Quantile >= 0.5 && c.Quantile <= 0.999) {
		wrong("Quantile: %v is out of range; between 0.5 and 0.999", c.Quantile)
	}
	for _, n := range []struct {
		field string
		value int
	}{
		{"MinSamples", c.MinSamples}, {"MinSlow", c.MinSlow}, {"ProbeSuccesses", c.ProbeSuccesses},
		{"RampMinSamples", c.RampMinSamples}, {"MaxAttemptsCounted", c.MaxAttemptsCounted},
	} {
		if n.value < 1 {
			wrong("%s: %d is out of range; at least 1", n.field, n.value)
		}
	}
	for i, share := range c.Ramp {
		if share < 1 || share > 100 {
			wrong("Ramp[%d]: %d is out of range; a percentage from 1 to 100", i, share)
		}
		if i > 0 && share <= c.Ramp[i-1] {
			wrong("Ramp[%d]: %d does not rise over the step before, %d", i, share, c.Ramp[i-1])
		}
	}
	return errors.Join(errs...)
}

// LatencyOf is the latency threshold of a tool.
func (c Config) LatencyOf(tool string) time.Duration {
	if d, ok := c.ToolLatency[tool]; ok {
		return d
	}
	return c.Latency
}

// CooldownFor is the cooldown of the n-th round of an outage, counted from 0,
// before jitter.
func (c Config) CooldownFor(round int) time.Duration {
	d := c.Cooldown
	for ; round > 0 && d <= c.MaxCooldown/2; round-- {
		d *= 2
	}
	if round > 0 {
		return c.MaxCooldown
	}
	return d
}

// settings are a configuration with its defaults set, and what follows from it.
// They are shared by breakers and never changed.
type settings struct {
	Config
	sliceWidth time.Duration
	fastSlices int32
}

func newSettings(c Config) *settings {
	width := c.Window / windowSlices
	return &settings{
		Config: c, sliceWidth: width,
		fastSlices: int32(math.Ceil(float64(c.FastWindow) / float64(width))),
	}
}

// probeTime bounds how long a round of probes may take before a breaker that
// hears nothing goes on alone.
func (s *settings) probeTime() time.Duration {
	return patience * time.Duration(s.ProbeSuccesses) * (s.Latency + s.ProbeInterval)
}
