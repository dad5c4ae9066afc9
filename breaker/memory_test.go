//go:build !race

// The race detector's own memory would be counted.

package breaker

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heapOf returns the bytes that the result of make keeps alive.
func heapOf(make func() any) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := make()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return after.HeapAlloc - before.HeapAlloc
}

// The package promises its memory use: 60 MB for 100,000 idle keys, used or not, and
// 8 KB for an active one with all cells and refusal counters.
func TestMemory(t *testing.T) {
	const keys = 100_000
	clock := &testClock{}
	idle := heapOf(func() any {
		r := NewRegistry(clock, nil)
		r.MaxKeys = keys
		for n := range keys {
			p, _ := r.Get(regionKey(n), Config{}).Allow(Call{})
			p.Done(Success)
			if n%1000 == 999 {
				clock.advance(2 * time.Minute)
				r.Tick()
			}
		}
		require.Len(t, r.All(), keys)
		require.Empty(t, r.awake)
		return r
	})
	t.Logf("%d idle keys: %.1f MB, %d bytes each", keys, float64(idle)/1e6, idle/keys)
	require.Less(t, idle, uint64(60e6))

	const busy = 1000
	active := heapOf(func() any {
		r := NewRegistry(clock, nil)
		for n := range busy {
			b := r.Get(regionKey(n), Config{})
			for _, forced := range []State{ForcedOpen, ForcedClosed} {
				require.NoError(t, b.Force(Force{State: forced, By: "operator", Note: "test", For: time.Second}))
				b.call(Success)
			}
			require.True(t, b.Release())
			b.call(Success)
			b.generation.collisions.Store(collisionsToSpread)
			clock.advance(time.Second)
			b.call(Success)
			require.Len(t, b.generation.rings[0].cells, maxCells)
		}
		return r
	})
	t.Logf("an active key: %d bytes", active/busy)
	require.Less(t, active/busy, uint64(8192))
}
