package breaker

import "time"

// windowSlices is how finely a window expires: a minute forgets second by second.
const windowSlices = 60

// Counts are the outcomes of calls over some time.
type Counts struct {
	// Samples is how many calls were counted.
	Samples int `json:"samples"`
	// Failures is how many of them failed.
	Failures int `json:"failures"`
	// Slow is how many of them took longer than the latency threshold, failed
	// ones included.
	Slow int `json:"slow"`
}

// Add gives the sum of both.
func (c Counts) Add(o Counts) Counts {
	return Counts{Samples: c.Samples + o.Samples, Failures: c.Failures + o.Failures, Slow: c.Slow + o.Slow}
}

// Sub gives c without o.
func (c Counts) Sub(o Counts) Counts {
	return Counts{Samples: c.Samples - o.Samples, Failures: c.Failures - o.Failures, Slow: c.Slow - o.Slow}
}

// window is a ring of slices of time. A slice is valid only while its index is
// the one that its place stands for now, so reading expires as writing does,
// however long nothing happened.
type window struct {
	width  time.Duration
	slices [windowSlices]slice
}

type slice struct {
	index int64
	Counts
}

func newWindow(span time.Duration) window {
	w := window{width: max(span/windowSlices, 1)}
	for i := range w.slices {
		w.slices[i].index = -1
	}
	return w
}

func (w *window) record(now time.Duration, c Counts) {
	index := int64(now / w.width)
	s := &w.slices[index%windowSlices]
	if s.index != index {
		*s = slice{index: index}
	}
	s.Counts = s.Add(c)
}

// newest sums the last span of the window, the running slice included.
func (w *window) newest(now, span time.Duration) Counts {
	index := int64(now / w.width)
	oldest := index - int64(span/w.width)
	var sum Counts
	for i := range w.slices {
		if s := &w.slices[i]; s.index > oldest && s.index <= index {
			sum = sum.Add(s.Counts)
		}
	}
	return sum
}
