package breaker

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// The display histogram has ten buckets for each power of two, from 2^17 ns
// (0.13 ms) to 2^39 ns (9 min), so the widest spans a tenth of its lower edge. A
// bucket's value has the same relative distance from both edges, at most
// 1/21 = 4.8 % from any latency in it.
const (
	histogramFirst   = 17
	histogramLast    = 39
	bucketsPerDouble = 10
	// The first bucket holds all shorter latencies, the last all longer ones.
	histogramBuckets = (histogramLast-histogramFirst)*bucketsPerDouble + 2

	// A busy key records the first calls of each slot of time, then one in 128 with a
	// weight of 128. That keeps the call path short, and is enough for display.
	recordedEach  = 256
	recordedOneIn = 128
)

// histogram is a rolling distribution of latencies for display; no rule uses it. It
// covers between half a window and a whole one. add may be called at any time; the
// rest is guarded by Breaker.mu.
type histogram struct {
	halves [2]half
	filled atomic.Uint32
	// turn is when the older half is dropped.
	turn time.Duration
}

type half struct {
	buckets [histogramBuckets]atomic.Uint32
	max     atomic.Int64
}

func (h *histogram) add(d time.Duration, calls uint32) {
	now := &h.halves[h.filled.Load()]
	now.buckets[bucketOf(d)].Add(calls)
	for m := now.max.Load(); int64(d) > m && !now.max.CompareAndSwap(m, int64(d)); m = now.max.Load() {
	}
}

// rotate drops the older half when that is due. A latency added meanwhile may go to
// either half.
func (h *histogram) rotate(now, window time.Duration) {
	for gone := 0; now >= h.turn && gone < 2; gone++ {
		older := 1 - h.filled.Load()
		for i := range h.halves[older].buckets {
			h.halves[older].buckets[i].Store(0)
		}
		h.halves[older].max.Store(0)
		h.filled.Store(older)
		h.turn += window / 2
	}
	if now >= h.turn {
		h.turn = now + window/2
	}
}

func (h *histogram) distribution() Distribution {
	var d Distribution
	for i := range h.halves {
		for j := range h.halves[i].buckets {
			d.buckets[j] += uint64(h.halves[i].buckets[j].Load())
		}
		d.max = max(d.max, time.Duration(h.halves[i].max.Load()))
	}
	return d
}

func bucketOf(d time.Duration) int {
	double := bits.Len64(uint64(d)) - 1
	switch {
	case d < 1<<histogramFirst:
		return 0
	case double >= histogramLast:
		return histogramBuckets - 1
	}
	part := int((uint64(d) - 1<<double) * bucketsPerDouble >> double)
	return 1 + (double-histogramFirst)*bucketsPerDouble + part
}

// bucketValue is the latency that represents a bucket.
func bucketValue(i int) time.Duration {
	if i == 0 {
		return 1 << (histogramFirst - 1)
	}
	if i == histogramBuckets-1 {
		return 1 << histogramLast
	}
	double, part := (i-1)/bucketsPerDouble, (i-1)%bucketsPerDouble
	unit := float64(uint64(1)<<(histogramFirst+double)) / bucketsPerDouble
	low := unit * float64(bucketsPerDouble+part)
	high := low + unit
	return time.Duration(2 * low * high / (low + high))
}

// Distribution is a set of latencies. Each is known to within 5 % from 0.13 ms to
// 9 minutes. Shorter ones read as 0.07 ms, longer ones as the longest. The zero
// Distribution is empty. Its methods may not be called concurrently with a change.
type Distribution struct {
	buckets [histogramBuckets]uint64
	max     time.Duration
}

// Add adds calls of one latency to d.
func (d *Distribution) Add(latency time.Duration, calls int) {
	d.buckets[bucketOf(latency)] += uint64(calls)
	d.max = max(d.max, latency)
}

// Count returns how many calls d holds.
func (d *Distribution) Count() int { return d.over(-1) }

// Max returns the longest latency exactly, 0 when d is empty.
func (d *Distribution) Max() time.Duration { return d.max }

// Over returns how many calls took longer than latency, to within its bucket.
func (d *Distribution) Over(latency time.Duration) int { return d.over(bucketOf(latency)) }

func (d *Distribution) over(bucket int) int {
	n := uint64(0)
	for _, calls := range d.buckets[bucket+1:] {
		n += calls
	}
	return int(n)
}

// Quantile returns the q-quantile by nearest rank, 0 when d is empty. q must be in
// (0, 1].
func (d *Distribution) Quantile(q float64) time.Duration {
	rest := uint64(allowedOver(d.Count(), q))
	for i := histogramBuckets - 1; i >= 0; i-- {
		if d.buckets[i] > rest {
			return min(bucketValue(i), d.max)
		}
		rest -= d.buckets[i]
	}
	return 0
}
