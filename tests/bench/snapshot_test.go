package bench

import (
	"fmt"
	"testing"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// One snapshot of one of ten thousand keys in use, as in a scrape.
func BenchmarkSnapshotKeysSerial(b *testing.B) {
	b.Run("toolbreaker", func(b *testing.B) {
		registry := breaker.NewRegistry(breaker.SystemClock(), nil)
		var keys []*breaker.Breaker
		for n := range 10_000 {
			key := registry.Get(breaker.Key{Dependency: "bench", Region: fmt.Sprint(n)}, breaker.Config{})
			permit, _ := key.Allow(breaker.Call{})
			permit.Done(breaker.Success)
			keys = append(keys, key)
		}
		b.ReportAllocs()
		defer reportCPU(b, cpuTime())
		b.ResetTimer()
		for i := range b.N {
			keys[i%len(keys)].Snapshot()
		}
	})
}

// One Find of a known key.
func BenchmarkFindKeysSerial(b *testing.B) {
	b.Run("toolbreaker", func(b *testing.B) {
		registry := breaker.NewRegistry(breaker.SystemClock(), nil)
		var keys []breaker.Key
		for n := range 1000 {
			keys = append(keys, breaker.Key{Dependency: "carrier-api", Region: fmt.Sprint("region-", n)})
			registry.Get(keys[n], breaker.Config{})
		}
		b.ReportAllocs()
		defer reportCPU(b, cpuTime())
		b.ResetTimer()
		for i := range b.N {
			registry.Find(keys[i%len(keys)])
		}
	})
}
