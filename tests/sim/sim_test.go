package main

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// small is a plan of seconds.
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

func TestSimulation_FindsEachOutageAndNoOther(t *testing.T) {
	t.Parallel()
	r := small(1).play(func(string) {})
	for _, b := range r.OneBadWorker {
		assert.Zero(t, b.Convictions, "one bad worker of %d", b.Workers)
	}
	judged := 0
	for _, o := range r.TrueOutage {
		// Of a fleet with a call or two for each that a limit takes, one may be found
		// late: what it has seen is now enough and now not.
		if o.Runs > 0 && 60*float64(o.Workers)*o.CallsPerSecond > 2*float64(config.MinSamples) {
			judged++
			assert.InDelta(t, 1, *o.ConvictedShare, 0.001, "%s, %d workers, %v calls a second", o.Fault, o.Workers, o.CallsPerSecond)
		}
	}
	assert.Greater(t, judged, 20)
	for _, n := range r.HealthyNoise {
		assert.Zero(t, n.Convictions)
		assert.LessOrEqual(t, n.Suspicions, 4, "until it has learnt what is noise")
		if n.FailureShare == 0 {
			assert.Zero(t, n.Signals, "a healthy fleet costs nothing")
		}
	}
}

func TestSimulation_IsDrawnFromItsSeedAlone(t *testing.T) {
	t.Parallel()
	play := func(seed uint64) string {
		p := small(seed)
		p.runs, p.outages, p.work, p.sizes = 10, 10, 1e5, []int{3, 40}
		data, err := json.Marshal(p.play(func(string) {}))
		require.NoError(t, err)
		return string(data)
	}
	assert.Equal(t, play(7), play(7))
	assert.NotEqual(t, play(7), play(8))
}

func TestDraw_WritesAPicture(t *testing.T) {
	t.Parallel()
	p := small(1)
	p.runs, p.outages, p.work = 5, 5, 1e5
	file := filepath.Join(t.TempDir(), "sim.svg")
	require.NoError(t, draw(p.play(func(string) {}), file))
	assert.FileExists(t, file)
}
