package model

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// The root module needs no YAML library. A configuration has the methods that YAML
// libraries call.
func TestConfig_AsYAML(t *testing.T) {
	var file struct {
		Dependencies map[string]breaker.Config `yaml:"dependencies"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(`
dependencies:
  carrier-api:
    mode: observe
    window: 30s
    failure_rate: 0.3
    latency: 2s
    tool_latency:
      create_return_label: 20s
    min_samples: 20
    ramp: [5, 50, 100]
    no_probe: true
  search: {}
  orders:
    mode: off
`), &file))
	carrier := breaker.Config{
		Mode: breaker.Observe, Window: 30 * time.Second, FailureRate: 0.3, Latency: 2 * time.Second,
		ToolLatency: map[string]time.Duration{"create_return_label": 20 * time.Second},
		MinSamples:  20, Ramp: []int{5, 50, 100}, NoProbe: true,
	}
	require.Equal(t, map[string]breaker.Config{
		"carrier-api": carrier, "search": {}, "orders": {Mode: breaker.Off},
	}, file.Dependencies)

	text, err := yaml.Marshal(carrier)
	require.NoError(t, err)
	require.Contains(t, string(text), "create_return_label: 20s")
	var read breaker.Config
	require.NoError(t, yaml.Unmarshal(text, &read))
	require.Equal(t, carrier, read)
}

func TestConfig_AsYAMLNamesEveryError(t *testing.T) {
	var c breaker.Config
	err := yaml.Unmarshal([]byte("window: 60\nlatncy: 2s\nmin_samples: many\n"), &c)
	require.ErrorContains(t, err, `window: 60 is not a duration; write it as text with a unit, such as "30s"`)
	require.ErrorContains(t, err, "latncy: is not a field")
	require.ErrorContains(t, err, `min_samples: "many" is not a whole number`)
	require.Zero(t, c)

	require.Error(t, yaml.Unmarshal([]byte("window: 3s\nwindow: 4s\n"), &c), "a duplicate field")
	require.Error(t, yaml.Unmarshal([]byte("- window\n"), &c))
}
