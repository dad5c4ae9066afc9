package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
)

// All mistakes of a configuration are reported in one error before the first task, each
// with its field.
func TestConfigMistakesAreReportedTogether(t *testing.T) {
	t.Parallel()
	s := newScenario(t, speed)

	t.Run("thresholds out of range, dependency without a probe", func(t *testing.T) {
		withoutProbe := carrierAPI(breaker.Config{FailureRate: 1.5, Latency: -time.Second, MinSamples: -1, Ramp: []int{50, 20, 400}})
		withoutProbe.Probe = interceptor.Probe{}
		_, err := interceptor.NewPlugin(s.Client, interceptor.Config{
			Region: "eu west", Dependencies: []interceptor.Dependency{withoutProbe},
		})
		require.Error(t, err)
		for _, mistake := range []string{
			`Region: "eu west" must`,
			"Dependencies[0] (carrier-api).Breaker: FailureRate: 1.5 is out of range",
			"Dependencies[0] (carrier-api).Breaker: Latency: -1s is too short",
			"Dependencies[0] (carrier-api).Breaker: MinSamples: -1 is out of range",
			"Dependencies[0] (carrier-api).Breaker: Ramp[1]: 20 does not rise",
			"Dependencies[0] (carrier-api).Breaker: Ramp[2]: 400 is out of range",
			"Dependencies[0] (carrier-api).Probe: is missing",
		} {
			assert.ErrorContains(t, err, mistake)
		}
	})
	t.Run("tool and probe without a registered activity", func(t *testing.T) {
		misspelt := carrierAPI(breaker.Config{})
		misspelt.Tools = append(misspelt.Tools, "get_delivery_statu")
		misspelt.Probe = interceptor.Synthetic("ping_carrier")
		plugin, err := interceptor.NewPlugin(s.Client, interceptor.Config{
			Region: carriertools.RegionEUWest, Dependencies: []interceptor.Dependency{misspelt},
		})
		require.NoError(t, err)
		w := worker.New(s.Client, "tools", worker.Options{Plugins: []worker.Plugin{plugin}})
		registerTools(w, s.Carrier.URL())

		err = w.Start()
		require.Error(t, err)
		assert.ErrorContains(t, err, `Dependencies[0] (carrier-api).Tools[4]: no worker of this plugin has registered an activity "get_delivery_statu"`)
		assert.ErrorContains(t, err, `Dependencies[0] (carrier-api).Probe: no worker of this plugin has registered an activity "ping_carrier"`)
		assert.ErrorContains(t, err, "registered are: create_return_label, get_delivery_status", "the error lists the registered activities")
	})
}
