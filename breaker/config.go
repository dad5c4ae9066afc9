package breaker

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Config configures the breaker of one dependency. Each zero field means the default
// named at the field, so Config{} is a conservative breaker. [Config.Validate] names
// all mistakes at once. Durations lie between 10 ms and a year.
//
// In JSON and YAML, field names are in lower case with underscores (fast_window) and
// durations are text ("2s"). Unknown fields are an error.
type Config struct {
	// Mode is how much the breaker may do. Default [Enforce].
	Mode Mode
	// Window is the rolling time over which outcomes are judged, in 60 slices.
	// Default 60 s.
	Window time.Duration
	// FastWindow is the newest part of Window. The failure rule is also applied to it
	// by itself. Default Window/6.
	//
	// A dependency that fails every call from one moment on fills half of a window of
	// a minute only after 30 s of steady traffic. It fills half of a sixth of it after
	// 5 s to 5.5 s, while a blip of 3 s is 27 to 30 % of that. A twelfth would trip
	// after 2.5 s, and so on that blip; a third would need 10 s.
	FastWindow time.Duration
	// FailureRate is the share of failed calls above which the breaker trips, in
	// (0, 1). A rate equal to it does not trip. Default 0.5.
	FailureRate float64
	// Latency is the threshold of the latency rule, and the age from which a call in
	// flight counts as slow. A call of exactly this length is not slow. Default 5 s.
	Latency time.Duration
	// ToolLatency holds other thresholds by tool name: creating a label takes longer
	// than reading a status. All tools count into one breaker. Optional.
	ToolLatency map[string]time.Duration
	// Quantile is the latency quantile compared with Latency, in [0.5, 0.999].
	// Default 0.99.
	Quantile float64
	// MinSamples is how many calls a horizon needs before it can trip. Default 10.
	MinSamples int
	// MinSlow is how many slow calls the latency rule needs in addition to
	// MinSamples. With fewer than 100 samples the p99 is the maximum, and one slow
	// call must not trip. Default 3.
	MinSlow int
	// Cooldown is how long the breaker stays open before the first probes. It doubles
	// with each further opening in the same outage. Default 30 s.
	Cooldown time.Duration
	// MaxCooldown limits the cooldown. Default 5 minutes, or Cooldown if that is longer.
	MaxCooldown time.Duration
	// ProbeSuccesses is how many consecutive probes must succeed. Default 3.
	ProbeSuccesses int
	// ProbeInterval is the pause between two probes. Default Latency/5, at least
	// 10 ms.
	ProbeInterval time.Duration
	// Ramp is the rising percentages of calls let pass while recovering. Default
	// 10, 25, 50, 100.
	Ramp []int
	// RampStep is how long each step of the ramp lasts. Default 15 s.
	RampStep time.Duration
	// RampMinSamples is how many calls of the ramp must have ended before it can trip
	// again. Default 5.
	RampMinSamples int
	// MaxAttemptsCounted is how many attempts of one activity execution are counted. It
	// keeps one run with a bad input from tripping the breaker by its retries. Default 3.
	MaxAttemptsCounted int
	// NoProbe declares that the dependency has no probe. The cooldown is then followed
	// by the ramp.
	NoProbe bool
	// IgnorePanics makes a tool's panic [Ignored]. By default it is a [Failure].
	IgnorePanics bool
	// FailOnRateLimit makes a rate-limited call (429) a [Failure]. By default it is
	// [Ignored], because the dependency works and only wants fewer calls.
	FailOnRateLimit bool
}

// WithDefaults returns c with each zero value replaced by its default.
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
	// minDuration keeps the slices of a window, and those of the ring of calls in
	// flight, from becoming too short.
	minDuration = 10 * time.Millisecond
	// maxDuration keeps sums of durations from overflowing.
	maxDuration = 365 * 24 * time.Hour
)

// Validate checks c after [Config.WithDefaults]. The error names every mistake with
// its field, joined by [errors.Join].
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

// LatencyOf returns the latency threshold of a tool.
func (c Config) LatencyOf(tool string) time.Duration {
	if d, ok := c.ToolLatency[tool]; ok {
		return d
	}
	return c.Latency
}

// CooldownFor returns the cooldown of the n-th opening of an outage, counted from 0,
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

// settings are a configuration with its defaults set and the values derived from it.
// Breakers share them. They are never modified.
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

// probeTime is how long a half-open breaker waits for a verdict before it starts the
// ramp by itself.
func (s *settings) probeTime() time.Duration {
	return patience * time.Duration(s.ProbeSuccesses) * (s.Latency + s.ProbeInterval)
}
