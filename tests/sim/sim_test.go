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
		seed: seed, runs: 60, outages: 60, work: 1e6,
		rates: []float64{0.1, 10}, hours: []float64{0.2, 0.01},
		sizes: []int{1, 10, 40, 200},
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
		if o.Runs > 0 {
			judged++
			assert.InDelta(t, 1, *o.ConvictedShare, 0.001, "%s, %d workers, %v calls a second", o.Fault, o.Workers, o.CallsPerSecond)
		}
	}
	assert.Greater(t, judged, 25)
	for _, n := range r.HealthyNoise {
		assert.Zero(t, n.Convictions)
		assert.LessOrEqual(t, n.Suspicions, 4, "until it has learnt what is noise")
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
