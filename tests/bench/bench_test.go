package bench

import (
	"sync/atomic"
	"testing"
	"time"
)

const manyKeys = 1000

func serial(b *testing.B, state func(system) func(int) call, keys int, failEvery int) {
	for _, s := range systems {
		newCall := state(s)
		if newCall == nil {
			continue
		}
		b.Run(s.name, func(b *testing.B) {
			calls := calls(newCall, keys)
			b.ReportAllocs()
			defer reportCPU(b, cpuTime())
			b.ResetTimer()
			key, untilFailure := 0, failEvery
			for range b.N {
				untilFailure--
				calls[key](untilFailure == 0)
				if untilFailure == 0 {
					untilFailure = failEvery
				}
				if key++; key == len(calls) {
					key = 0
				}
			}
		})
	}
}

func parallel(b *testing.B, state func(system) func(int) call, keys int, failEvery int) {
	for _, s := range systems {
		newCall := state(s)
		if newCall == nil {
			continue
		}
		b.Run(s.name, func(b *testing.B) {
			calls := calls(newCall, keys)
			var begun atomic.Int64
			b.ReportAllocs()
			defer reportCPU(b, cpuTime())
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				// Goroutines start at distant keys, so that they rarely use the same key.
				key, untilFailure := int(begun.Add(1))*379%len(calls), failEvery
				for pb.Next() {
					untilFailure--
					calls[key](untilFailure == 0)
					if untilFailure == 0 {
						untilFailure = failEvery
					}
					if key++; key == len(calls) {
						key = 0
					}
				}
			})
		})
	}
}

func calls(newCall func(int) call, keys int) []call {
	var all []call
	for key := range keys {
		all = append(all, newCall(key))
	}
	return all
}

// reportCPU reports the processor time of a call. On a busy machine it is more
// exact than wall-clock time. It leaves out the time spent waiting for a lock.
func reportCPU(b *testing.B, began time.Duration) {
	b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
}

func closed(s system) func(int) call { return s.closed }
func open(s system) func(int) call   { return s.open }

// Closed: a call is admitted and its success is recorded.
func BenchmarkClosedSerial(b *testing.B)   { serial(b, closed, 1, 0) }
func BenchmarkClosedParallel(b *testing.B) { parallel(b, closed, 1, 0) }

// The same over a thousand keys in turn.
func BenchmarkClosedKeysSerial(b *testing.B)   { serial(b, closed, manyKeys, 0) }
func BenchmarkClosedKeysParallel(b *testing.B) { parallel(b, closed, manyKeys, 0) }

// One call in a hundred fails.
func BenchmarkMixedSerial(b *testing.B)   { serial(b, closed, 1, 100) }
func BenchmarkMixedParallel(b *testing.B) { parallel(b, closed, 1, 100) }

// Open: a call is refused.
func BenchmarkOpenSerial(b *testing.B)       { serial(b, open, 1, 0) }
func BenchmarkOpenParallel(b *testing.B)     { parallel(b, open, 1, 0) }
func BenchmarkOpenKeysSerial(b *testing.B)   { serial(b, open, manyKeys, 0) }
func BenchmarkOpenKeysParallel(b *testing.B) { parallel(b, open, manyKeys, 0) }
