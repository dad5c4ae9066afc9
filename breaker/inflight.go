package breaker

import "time"

const (
	// inflightSlots and slotsPerLatency: the ring reaches 1.6 thresholds back, so
	// whatever has rotated out of it is hung for certain.
	inflightSlots   = 32
	slotsPerLatency = 20
)

// inflight counts the calls that have begun and not ended, by when they began,
// in slots of a twentieth of the latency threshold. A call is found hanging at
// most one slot late, for one addition when it begins and one when it ends.
type inflight struct {
	width time.Duration
	slots [inflightSlots]struct {
		index int64
		calls int
	}
	// older holds the calls whose slot was taken over: all of them hang.
	older int
}

func newInflight(latency time.Duration) inflight {
	return inflight{width: max(latency/slotsPerLatency, 1)}
}

// begin gives the slot to hand to end.
func (f *inflight) begin(now time.Duration) int64 {
	index := int64(now / f.width)
	s := &f.slots[index%inflightSlots]
	if s.index != index {
		f.older += s.calls
		s.index, s.calls = index, 0
	}
	s.calls++
	return index
}

func (f *inflight) end(index int64) {
	if s := &f.slots[index%inflightSlots]; s.index == index {
		s.calls--
		return
	}
	f.older--
}

// hung counts the calls that began at least one latency threshold ago.
func (f *inflight) hung(now time.Duration) int {
	newest := int64(now/f.width) - slotsPerLatency - 1
	n := f.older
	for i := range f.slots {
		if s := &f.slots[i]; s.index <= newest {
			n += s.calls
		}
	}
	return n
}

func (f *inflight) total() int {
	n := f.older
	for i := range f.slots {
		n += f.slots[i].calls
	}
	return n
}
