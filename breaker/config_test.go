package breaker

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDefaultsAreValid(t *testing.T) {
	require.NoError(t, Config{}.Validate())
	for _, c := range []Config{{Window: minDuration}, {Latency: minDuration}, {Cooldown: time.Hour}, {Window: 1000 * time.Hour, Latency: time.Hour}} {
		require.NoError(t, c.Validate(), "%+v", c)
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	c := Config{
		Mode: "loud", Window: time.Second, FastWindow: 2 * time.Second, FailureRate: 50, Latency: -time.Second,
		ToolLatency: map[string]time.Duration{"b": 1, "a": 2}, Quantile: math.NaN(), MinSamples: -1, MinSlow: -1,
		Cooldown: time.Minute, MaxCooldown: time.Second, ProbeSuccesses: -1, ProbeInterval: 1, Ramp: []int{50, 50, 101},
		RampStep: 1, RampMinSamples: -1, MaxAttemptsCounted: -1,
	}
	err := c.Validate()
	require.Error(t, err)
	var fields []string
	for line := range strings.Lines(err.Error()) {
		field, _, _ := strings.Cut(line, ":")
		fields = append(fields, field)
	}
	require.Equal(t, []string{
		"Mode", "Latency", "ProbeInterval", "RampStep", "ToolLatency[a]", "ToolLatency[b]", "FastWindow", "MaxCooldown",
		"FailureRate", "Quantile", "MinSamples", "MinSlow", "ProbeSuccesses", "RampMinSamples", "MaxAttemptsCounted",
		"Ramp[1]", "Ramp[2]",
	}, fields)
}

var fullConfig = Config{
	Mode: Observe, Window: 30 * time.Second, FastWindow: 3 * time.Second, FailureRate: 0.3, Latency: 2 * time.Second,
	ToolLatency: map[string]time.Duration{"create_return_label": 20 * time.Second}, Quantile: 0.95, MinSamples: 20, MinSlow: 4,
	Cooldown: time.Minute, MaxCooldown: 10 * time.Minute, ProbeSuccesses: 2, ProbeInterval: time.Second, Ramp: []int{5, 100},
	RampStep: 20 * time.Second, RampMinSamples: 7, MaxAttemptsCounted: 2, NoProbe: true, IgnorePanics: true, FailOnRateLimit: true,
}

const fullText = `{"mode":"observe","window":"30s","fast_window":"3s","failure_rate":0.3,"latency":"2s",` +
	`"tool_latency":{"create_return_label":"20s"},"quantile":0.95,"min_samples":20,"min_slow":4,"cooldown":"1m0s",` +
	`"max_cooldown":"10m0s","probe_successes":2,"probe_interval":"1s","ramp":[5,100],"ramp_step":"20s",` +
	`"ramp_min_samples":7,"max_attempts_counted":2,"no_probe":true,"ignore_panics":true,"fail_on_rate_limit":true}`

func TestConfigAsText(t *testing.T) {
	text, err := json.Marshal(fullConfig)
	require.NoError(t, err)
	require.JSONEq(t, fullText, string(text))
	require.Equal(t, fullText, string(text), "in the order of the documentation")

	var read Config
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, fullConfig, read)

	text, err = json.Marshal(Config{})
	require.NoError(t, err)
	require.Equal(t, "{}", string(text), "what is default is left out")
}

func TestConfigTextNamesEveryMistake(t *testing.T) {
	read := Config{MinSamples: 7}
	err := json.Unmarshal([]byte(`{
		"window": 60, "latency": "2 seconds", "tool_latency": {"a": 1, "b": "x", "c": "1s"}, "min_samples": 2.5,
		"failure_rate": "half", "ramp": 10, "no_probe": "yes", "mode": 1, "fast_windw": "3s", "Cooldown": "3s"}`), &read)
	require.Error(t, err)
	names := configFieldNames()
	require.Equal(t, strings.Join([]string{
		`mode: 1 is not a text`,
		`window: 60 is not a duration; write it as text with a unit, such as "30s"`,
		`failure_rate: "half" is not a number`,
		`latency: "2 seconds" is not a duration, such as "30s" or "1m30s"`,
		`tool_latency: a: 1 is not a duration; write it as text with a unit, such as "30s"`,
		`b: "x" is not a duration, such as "30s" or "1m30s"`,
		`min_samples: 2.5 is not a whole number`,
		`ramp: 10 is not a list of whole numbers`,
		`no_probe: "yes" is not true or false`,
		`Cooldown: is not a field; there are ` + names,
		`fast_windw: is not a field; there are ` + names,
	}, "\n"), err.Error())
	require.Equal(t, Config{MinSamples: 7}, read, "nothing has changed")
}

func TestConfigureKeepsStateAndWindow(t *testing.T) {
	r := newRig(t, Config{})
	r.calls(30, Success)
	r.clock.advance(12 * time.Second)
	r.calls(9, Failure)
	p := r.allow()
	c := r.Config()
	c.Window, c.FastWindow, c.Latency, c.MinSamples = 20*time.Second, 5*time.Second, 300*time.Millisecond, 5
	c.FailureRate = 0.2
	require.NoError(t, r.Configure(c))
	require.Equal(t, c, r.Config())
	require.Equal(t, Counts{Samples: 39, Failures: 9}, r.Evidence().Window)
	require.Equal(t, Counts{Samples: 9, Failures: 9}, r.Evidence().Fast)
	require.Equal(t, 1, r.Snapshot().InFlight)
	p.Done(Success)
	require.Equal(t, Open, r.Snapshot().State, "the next call that ends is judged by it")

	before := r.Snapshot()
	c.Cooldown = time.Hour
	c.MaxCooldown = time.Hour
	require.NoError(t, r.Configure(c))
	require.Equal(t, before, r.Snapshot(), "a wait that runs stays as it is")

	c.FailureRate = 7
	require.ErrorContains(t, r.Configure(c), "FailureRate")
	require.Equal(t, 0.2, r.Config().FailureRate)
}

func TestCooldownFor(t *testing.T) {
	c := Config{Cooldown: 10 * time.Second, MaxCooldown: time.Minute}.WithDefaults()
	for round, want := range []time.Duration{10, 20, 40, 60, 60} {
		require.Equal(t, want*time.Second, c.CooldownFor(round))
	}
	require.Equal(t, time.Minute, c.CooldownFor(math.MaxInt))
	c.Cooldown, c.MaxCooldown = math.MaxInt64-1, math.MaxInt64
	require.Equal(t, time.Duration(math.MaxInt64), c.CooldownFor(1))
}

func TestRegistryConfigure(t *testing.T) {
	r := NewRegistry(&testClock{}, nil)
	a, b := r.Get(regionKey(1), Config{}), r.Get(regionKey(2), Config{})
	other := r.Get(Key{Dependency: "search", Region: "eu-west"}, Config{})
	require.NoError(t, r.Configure("carrier-api", Config{MinSamples: 50}))
	require.Equal(t, 50, a.Config().MinSamples)
	require.Equal(t, 50, b.Config().MinSamples)
	require.Equal(t, 10, other.Config().MinSamples)
	require.Error(t, r.Configure("search", Config{MinSamples: -1}))
}

// Workflow inputs are read by workers of every version of a rolling upgrade.
func TestConfig_ReadsWhatANewerVersionHasStored(t *testing.T) {
	t.Parallel()
	stored := []byte(`{"latency":"2s","added_later":{"by":"a newer version"}}`)
	var c Config
	require.NoError(t, c.UnmarshalStored(stored))
	require.Equal(t, Config{Latency: 2 * time.Second}, c)
	require.ErrorContains(t, c.UnmarshalJSON(stored), "added_later: is not a field", "in what people write it is a mistake")
	require.ErrorContains(t, c.UnmarshalStored([]byte(`{"latency":2}`)), "latency: 2 is not a duration")
}
