package breaker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// configFields are a configuration's fields by their names in text, in the order in
// which they are written.
var configFields = []struct {
	name  string
	value func(*Config) any
}{
	{"mode", func(c *Config) any { return &c.Mode }},
	{"window", func(c *Config) any { return &c.Window }},
	{"fast_window", func(c *Config) any { return &c.FastWindow }},
	{"failure_rate", func(c *Config) any { return &c.FailureRate }},
	{"latency", func(c *Config) any { return &c.Latency }},
	{"tool_latency", func(c *Config) any { return &c.ToolLatency }},
	{"quantile", func(c *Config) any { return &c.Quantile }},
	{"min_samples", func(c *Config) any { return &c.MinSamples }},
	{"min_slow", func(c *Config) any { return &c.MinSlow }},
	{"cooldown", func(c *Config) any { return &c.Cooldown }},
	{"max_cooldown", func(c *Config) any { return &c.MaxCooldown }},
	{"probe_successes", func(c *Config) any { return &c.ProbeSuccesses }},
	{"probe_interval", func(c *Config) any { return &c.ProbeInterval }},
	{"ramp", func(c *Config) any { return &c.Ramp }},
	{"ramp_step", func(c *Config) any { return &c.RampStep }},
	{"ramp_min_samples", func(c *Config) any { return &c.RampMinSamples }},
	{"max_attempts_counted", func(c *Config) any { return &c.MaxAttemptsCounted }},
	{"no_probe", func(c *Config) any { return &c.NoProbe }},
	{"ignore_panics", func(c *Config) any { return &c.IgnorePanics }},
	{"fail_on_rate_limit", func(c *Config) any { return &c.FailOnRateLimit }},
}

// durationText is a duration written as text.
type durationText time.Duration

func (d durationText) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *durationText) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf(`%s is not a duration; write it as text with a unit, such as "30s"`, data)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf(`%q is not a duration, such as "30s" or "1m30s"`, text)
	}
	*d = durationText(parsed)
	return nil
}

// MarshalJSON writes the nonzero fields, with durations as text.
func (c Config) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for _, f := range configFields {
		v := f.value(&c)
		if reflect.ValueOf(v).Elem().IsZero() {
			continue
		}
		switch value := v.(type) {
		case *time.Duration:
			v = (*durationText)(value)
		case *map[string]time.Duration:
			texts := make(map[string]durationText, len(*value))
			for tool, d := range *value {
				texts[tool] = durationText(d)
			}
			v = texts
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%q:%s", f.name, text)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON sets the fields that data names and keeps the others. The error
// names every field that is unknown or malformed, joined by [errors.Join], and then
// c has not changed. Use [Config.Validate] to check the values.
func (c *Config) UnmarshalJSON(data []byte) error { return c.read(data, true) }

// UnmarshalStored is UnmarshalJSON for what [Config.MarshalJSON] wrote in another
// process. It ignores unknown fields, because that process may run a newer version.
func (c *Config) UnmarshalStored(data []byte) error { return c.read(data, false) }

func (c *Config) read(data []byte, strict bool) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	read := *c
	read.ToolLatency = maps.Clone(c.ToolLatency)
	var errs []error
	for _, f := range configFields {
		text, ok := raw[f.name]
		delete(raw, f.name)
		if !ok || bytes.Equal(text, []byte("null")) {
			continue
		}
		if err := readField(text, f.value(&read)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		}
	}
	if !strict {
		clear(raw)
	}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		errs = append(errs, fmt.Errorf("%s: is not a field; there are %s", name, configFieldNames()))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	*c = read
	return nil
}

func configFieldNames() string {
	var names []string
	for _, f := range configFields {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

func readField(text []byte, into any) error {
	switch into := into.(type) {
	case *time.Duration:
		return json.Unmarshal(text, (*durationText)(into))
	case *map[string]time.Duration:
		var texts map[string]json.RawMessage
		if err := json.Unmarshal(text, &texts); err != nil {
			return fmt.Errorf("%s is not a table of durations by tool", text)
		}
		var errs []error
		read := make(map[string]time.Duration, len(texts))
		for _, tool := range slices.Sorted(maps.Keys(texts)) {
			var d durationText
			if err := json.Unmarshal(texts[tool], &d); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", tool, err))
			}
			read[tool] = time.Duration(d)
		}
		*into = read
		return errors.Join(errs...)
	default:
		if json.Unmarshal(text, into) != nil {
			return fmt.Errorf("%s is not %s", text, kindName(into))
		}
		return nil
	}
}

func kindName(into any) string {
	switch into.(type) {
	case *int:
		return "a whole number"
	case *float64:
		return "a number"
	case *bool:
		return "true or false"
	case *[]int:
		return "a list of whole numbers"
	default:
		return "a text"
	}
}

// UnmarshalYAML reads c as [Config.UnmarshalJSON] does. YAML libraries look for this
// signature, so this module needs none of them.
func (c *Config) UnmarshalYAML(unmarshal func(any) error) error {
	var fields map[string]any
	if err := unmarshal(&fields); err != nil {
		return err
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return c.UnmarshalJSON(text)
}

// MarshalYAML returns what [Config.MarshalJSON] writes, as a map.
func (c Config) MarshalYAML() (any, error) {
	text, err := c.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	err = json.Unmarshal(text, &fields)
	return fields, err
}
