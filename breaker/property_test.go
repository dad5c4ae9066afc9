package breaker

import (
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sortedQuantileOver follows the definition: the ceil(q·n)-th smallest of n latencies,
// q in thousandths, is over the threshold of 1.
func sortedQuantileOver(latencies []float64, thousandths int) bool {
	sort.Float64s(latencies)
	rank := (thousandths*len(latencies) + 999) / 1000
	return latencies[rank-1] > 1
}

// Counting gives the same result as sorting: for every n up to 10,000 at both counts
// next to the boundary, and for random latencies.
func TestCountingEqualsSorting(t *testing.T) {
	quantiles := []int{500, 501, 667, 750, 900, 950, 990, 995, 998, 999}
	for n := 1; n <= 10_000; n++ {
		for _, q := range quantiles {
			rank := (q*n + 999) / 1000
			// With n-rank slow calls the rank-th smallest is the last good one.
			require.False(t, overQuantile(n, n-rank, float64(q)/1000), "n=%d q=%d", n, q)
			require.True(t, overQuantile(n, n-rank+1, float64(q)/1000), "n=%d q=%d", n, q)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		n, q := 1+random.IntN(400), 500+random.IntN(500)
		share := random.Float64()
		latencies, slow := make([]float64, n), 0
		for i := range latencies {
			latencies[i] = random.Float64()
			if random.Float64() < share {
				latencies[i] += 1.000001
				slow++
			}
		}
		require.Equal(t, sortedQuantileOver(latencies, q), overQuantile(n, slow, float64(q)/1000), "n=%d q=%d slow=%d", n, q, slow)
	}
}

// Decimal limits are compared exactly.
func TestFailureRateIsComparedExactly(t *testing.T) {
	for percent := 1; percent < 100; percent++ {
		limit := float64(percent) / 100
		for scale := 1; scale <= 50; scale++ {
			at := Counts{Samples: 100 * scale, Failures: percent * scale}
			require.False(t, overRate(at, limit), "%+v at %v", at, limit)
			at.Failures++
			require.True(t, overRate(at, limit), "%+v over %v", at, limit)
		}
	}
}

// Any 100 consecutive calls contain exactly the share.
func TestRampShareIsExactOverAny100Calls(t *testing.T) {
	for share := 1; share <= 100; share++ {
		var r rampShare
		r.set(share)
		var admitted []int
		for range 500 {
			n := 0
			if r.admit(time.Second, time.Hour) {
				n = 1
			}
			admitted = append(admitted, n)
		}
		sum := 0
		for i, n := range admitted {
			sum += n
			if i >= 100 {
				sum -= admitted[i-100]
			}
			if i >= 99 {
				require.Equal(t, share, sum, "share %d, calls %d to %d", share, i-99, i)
			}
		}
		require.Equal(t, 1, admitted[0], "the first call is admitted")
	}
}

// The display histogram is within 5 % of the sorted latencies.
func TestDistributionIsWithinFivePercent(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var d Distribution
		var all []float64
		for range 1 + random.IntN(2000) {
			// The latencies are spread over the orders of magnitude, from 0.14 ms to 5 minutes.
			latency := 140e3 * pow(2, random.Float64()*21)
			all = append(all, latency)
			d.Add(time.Duration(latency), 1)
		}
		sort.Float64s(all)
		require.Equal(t, len(all), d.Count())
		require.InEpsilon(t, all[len(all)-1], float64(d.Max()), 1e-6)
		for _, q := range []int{500, 900, 990, 1000} {
			exact := all[(q*len(all)+999)/1000-1]
			require.InEpsilon(t, exact, float64(d.Quantile(float64(q)/1000)), 0.05, "p%d of %d", q/10, len(all))
		}
	}
}

func pow(base, exponent float64) float64 {
	result := 1.0
	for ; exponent >= 1; exponent-- {
		result *= base
	}
	return result * (1 + exponent*(base-1))
}

// The window equals a plain list of samples for any clock.
func TestWindowEqualsList(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		checkWindow(t, func(limit int64) int64 { return random.Int64N(limit) })
	}
}

// checkWindow compares a window with a list. next gives the random steps.
func checkWindow(t testing.TB, next func(limit int64) int64) {
	c := Config{
		Window:     minDuration + time.Duration(next(int64(time.Minute))),
		FastWindow: minDuration,
	}.WithDefaults()
	s := newSettings(c)
	now := time.Duration(next(int64(time.Hour)))
	w := newWindow(now, s)
	newest := now
	type sample struct {
		index int64
		Counts
	}
	var list []sample
	for range 60 {
		switch next(4) {
		case 0:
			now += time.Duration(next(int64(c.Window / 10)))
		case 1:
			now += time.Duration(next(int64(4 * c.Window)))
		case 2:
			// Another goroutine read the clock earlier.
			now -= min(now, time.Duration(next(int64(c.Window/30))))
		}
		newest = max(newest, now)
		w.advance(now)
		counts := Counts{Samples: 1 + int(next(3)), Failures: int(next(2)), Slow: int(next(2))}
		w.record(counts)
		index := int64(newest / s.sliceWidth)
		list = append(list, sample{index, counts})
		var total, fast Counts
		for _, one := range list {
			if one.index >= index-windowSlices {
				total = total.add(one.Counts)
			}
			if one.index >= index-int64(s.fastSlices) {
				fast = fast.add(one.Counts)
			}
		}
		if w.total != total || w.fast != fast {
			t.Fatalf("window holds %+v and %+v, the list %+v and %+v", w.total, w.fast, total, fast)
		}
	}
}
