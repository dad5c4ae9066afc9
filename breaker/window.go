package breaker

import "time"

// windowSlices is the number of slices of a window: a minute expires second by second.
const windowSlices = 60

// window is a rolling count in slices of time. It keeps a total for each horizon, so
// that no decision has to add up slices. A horizon covers its full slices and the
// current one.
//
// Invariants: total and fast are the sums of the slices in their horizons. A slice
// outside the longer horizon is zero before current reaches its place. Guarded by
// Breaker.mu.
type window struct {
	width time.Duration
	// current is the number of the current slice: its start divided by width.
	current int64
	slices  [windowSlices + 1]slice
	// fastSlices is how many slices before the current one the fast horizon covers.
	fastSlices  int32
	total, fast Counts
}

type slice struct{ samples, failures, slow uint32 }

func (s slice) counts() Counts {
	return Counts{Samples: int(s.samples), Failures: int(s.failures), Slow: int(s.slow)}
}

func newWindow(now time.Duration, s *settings) window {
	return window{width: s.sliceWidth, fastSlices: s.fastSlices, current: int64(now / s.sliceWidth)}
}

func (w *window) at(index int64) *slice { return &w.slices[index%int64(len(w.slices))] }

// record counts c in the current slice.
func (w *window) record(c Counts) { w.recordAt(w.current, c) }

func (w *window) recordAt(index int64, c Counts) {
	s := w.at(index)
	s.samples += uint32(c.Samples)
	s.failures += uint32(c.Failures)
	s.slow += uint32(c.Slow)
	w.total = w.total.add(c)
	if index >= w.current-int64(w.fastSlices) {
		w.fast = w.fast.add(c)
	}
}

// advance moves to the slice of now and drops what has left a horizon. Its cost is
// bounded for any idle time. A now before the current slice changes nothing, because
// callers read the clock before they take the lock.
func (w *window) advance(now time.Duration) {
	target := int64(now / w.width)
	if target-w.current >= int64(len(w.slices)) {
		*w = window{width: w.width, fastSlices: w.fastSlices, current: target}
		return
	}
	for w.current < target {
		// The order matters: with the longest fast horizon, both slices have the same place.
		if leaving := w.current - int64(w.fastSlices); leaving >= 0 {
			w.fast = w.fast.sub(w.at(leaving).counts())
		}
		w.current++
		oldest := w.at(w.current)
		w.total = w.total.sub(oldest.counts())
		*oldest = slice{}
	}
}

// end is when the current slice ends.
func (w *window) end() time.Duration { return time.Duration(w.current+1) * w.width }

// reshape returns w's samples in slices of another configuration. Each old slice goes
// where its middle falls; the current one goes no later than now.
func (w *window) reshape(now time.Duration, s *settings) window {
	n := newWindow(now, s)
	for i := max(0, w.current-windowSlices); i <= w.current; i++ {
		counts := w.at(i).counts()
		if counts == (Counts{}) {
			continue
		}
		middle := time.Duration(i)*w.width + w.width/2
		if index := int64(min(middle, now) / n.width); index >= n.current-windowSlices {
			n.recordAt(index, counts)
		}
	}
	return n
}
