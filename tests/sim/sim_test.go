package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// small returns a plan that runs for seconds.
func small(seed uint64) plan {
	return plan{
		seed: seed, runs: 30, outages: 10, work: 1e5,
		sizes: []int{3, 10, 40, 100},
		healthy: []noiseRow{
			{Workers: 1000, CallsPerSecond: 0.1, FailureShare: 0.01, Hours: 0.05},
			{Workers: 100, CallsPerSecond: 10, FailureShare: 0.01, Hours: 0.01},
			{Workers: 100, CallsPerSecond: 1, FailureShare: 0, Hours: 0.05},
		},
	}
}

func TestSimulation_ConfirmsEveryOutageAndNothingElse(t *testing.T) {
	t.Parallel()
	r := small(1).simulate(func(string) {})
	for _, b := range r.OneOutlier {
		assert.Zero(t, b.Confirmed, "one outlier of %d workers", b.Workers)
	}
	checked := 0
	for _, o := range r.TrueOutage {
		// With up to twice the minimum of calls, the evidence may suffice only at times.
		// Such an outage may be confirmed late.
		if o.Runs > 0 && 60*float64(o.Workers)*o.CallsPerSecond > 2*float64(config.MinSamples) {
			checked++
			assert.InDelta(t, 1, *o.ConfirmedShare, 0.001, "%s, %d workers, %v calls a second", o.Fault, o.Workers, o.CallsPerSecond)
		}
	}
	assert.Greater(t, checked, 20)
	for _, n := range r.HealthyNoise {
		assert.Zero(t, n.Confirmed)
		assert.LessOrEqual(t, n.Suspicions, 4, "suspicions end once the noise is known")
		if n.FailureShare == 0 {
			assert.Zero(t, n.Signals, "a healthy fleet costs nothing")
		}
	}
}

func TestSimulation_DependsOnlyOnItsSeed(t *testing.T) {
	t.Parallel()
	simulate := func(seed uint64) string {
		p := small(seed)
		p.runs, p.outages, p.work, p.sizes = 10, 10, 1e5, []int{3, 40}
		data, err := json.Marshal(p.simulate(func(string) {}))
		require.NoError(t, err)
		return string(data)
	}
	assert.Equal(t, simulate(7), simulate(7))
	assert.NotEqual(t, simulate(7), simulate(8))
}

func TestDraw_WritesAPicture(t *testing.T) {
	t.Parallel()
	p := small(1)
	p.runs, p.outages, p.work = 5, 5, 1e5
	file := filepath.Join(t.TempDir(), "sim.svg")
	require.NoError(t, draw(p.simulate(func(string) {}), file))
	assert.FileExists(t, file)
}
