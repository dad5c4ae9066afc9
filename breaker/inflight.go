package breaker

import (
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"
)

// Calls in flight are counted by when they will begin to hang: the slot of time
// that holds begin + latency. A call costs one addition when it begins and one
// when it ends, no timer and no list, and calls with different thresholds need
// nothing more: each is hung once its slot is over.
//
// A slot is as wide as a sixteenth of the threshold, rounded down to the power
// of two that makes finding it a shift. So a call is found hanging at most a
// sixteenth of its threshold late. Thresholds of one power of two share a [ring];
// a breaker whose tools have about the same threshold has one.
const (
	slotBits = 6
	// slots reach twice as far as the farthest deadline, so a place is taken over
	// only by a deadline that is past the old one by a whole ring.
	slots = 1 << slotBits

	// maxCells is how many copies of a ring goroutines are spread over once they
	// get into each other's way. A copy is half a KiB.
	maxCells = 8
	// collisionsToSpread is how many lost races make that happen.
	collisionsToSpread = 16
	// maxPatience bounds how patient a ring becomes: each time that goroutines were
	// spread anew takes twice as many lost races, up to 2^12 times as many. Where
	// there are more goroutines than cells, meeting is no accident.
	maxPatience = 12
)

// A word of a ring counts one slot:
//
//	tag 20 bits | calls that ended well 24 | calls in flight 20
//
// The tag says which turn of the ring the counts belong to; it is 0 while the
// word is out of use, and each change goes by compare-and-swap. So a call that
// finds its tag has counted in the right slot, and clearing a tag shuts the word
// for everyone at once.
//
// That calls ended well are counted here, and not in the window, makes the end
// of a good call one addition.
type word = atomic.Uint64

const (
	inflightBits = 20
	endedBits    = 24
	inflightOne  = 1
	endedOne     = 1 << inflightBits
	inflightMask = endedOne - 1
	endedMax     = 1<<endedBits - 1
	endedMask    = endedMax << inflightBits
	tagShift     = inflightBits + endedBits
	turnMask     = 1<<19 - 1
	tagInUse     = 1 << 19
)

func tagOf(slot int64) uint64   { return uint64(slot>>slotBits)&turnMask | tagInUse }
func hasTag(w, tag uint64) bool { return w>>tagShift == tag }
func inflightOf(w uint64) int   { return int(w & inflightMask) }
func endedOf(w uint64) int      { return int(w & endedMask >> inflightBits) }
func canBegin(w uint64) bool    { return w&inflightMask != inflightMask }
func canEndWell(w uint64) bool  { return w&endedMask != endedMask && w&inflightMask != 0 }
func place(slot int64) int64    { return slot & (slots - 1) }

// latencyClass puts thresholds of one power of two together.
func latencyClass(latency time.Duration) uint8 { return uint8(bits.Len64(uint64(latency))) }

// slotShift is the binary logarithm of a slot's width in nanoseconds. No
// threshold is so short that it would be negative: see minDuration.
func slotShift(class uint8) uint8 { return class - 5 }

// slotAt is the slot that holds a moment. The mask is for the compiler.
func slotAt(at time.Duration, shift uint8) int64 { return int64(at >> (shift & 63)) }

// slotOf is the slot in which a call's threshold passes.
func slotOf(begun, latency time.Duration) int64 {
	return slotAt(begun+latency, slotShift(latencyClass(latency)))
}

// cell is one copy of a ring's words.
type cell [slots]word

// ring counts the calls in flight whose thresholds are of one power of two. All
// but the words of its cells is guarded by Breaker.mu.
type ring struct {
	class uint8
	shift uint8
	// cells are one or maxCells. Which of them counts a call does not matter.
	cells []*cell
	// older counts the calls whose word was taken over or out of use. All of them
	// hang.
	older int
	// taken is how many of the calls that ended well by the words in use have been
	// taken into account.
	taken int
	// settled is the slot of the last settling.
	settled int64
}

func newRing(class uint8) *ring {
	return &ring{class: class, shift: slotShift(class), cells: []*cell{new(cell)}}
}

// spread gives each stripe a cell of its own.
func (r *ring) spread() {
	for len(r.cells) < maxCells {
		r.cells = append(r.cells, new(cell))
	}
}

// firstSeed is 2^64 over the golden ratio: its multiples spread evenly.
const firstSeed = 0x9e3779b97f4a7c15

// seed gives the n-th spread. A multiple of the first would keep apart, and
// together, much the same goroutines; its bits turned round do not.
func seed(n uint32) uint64 { return bits.RotateLeft64(firstSeed, int(7*n)) | 1 }

// spreadAt is how many collisions make the next spread.
func spreadAt(n uint32) uint32 { return collisionsToSpread << min(n, maxPatience) }

// stripe spreads goroutines over the cells. Goroutines live on different
// stacks, so the address of a local variable tells them apart; a bad spread
// costs time, never a count, and another odd seed gives another spread.
func stripe(seed uint64) uintptr {
	var local byte
	return uintptr(uint64(uintptr(unsafe.Pointer(&local))>>11) * seed >> 61)
}

// begin counts a call in flight. It gives the word that counts it, nil when the
// word is full.
//
// The seed is the gate's: a call that comes without the lock then finds the word
// that this one has put to use.
func (r *ring) begin(slot int64, seed uint64) *word {
	w := &r.cells[stripe(seed)%uintptr(len(r.cells))][place(slot)]
	tag := tagOf(slot)
	for {
		old := w.Load()
		switch {
		case hasTag(old, tag):
			if !canBegin(old) {
				return nil
			}
			if w.CompareAndSwap(old, old+inflightOne) {
				return w
			}
		case old != 0 && turnsApart(old>>tagShift, tag) > 0:
			// This goroutine stood still for a turn of the ring after it read the
			// clock: its call hangs by now.
			r.older++
			return w
		case w.CompareAndSwap(old, tag<<tagShift|inflightOne):
			r.dropped(old)
			return w
		}
	}
}

// dropped accounts for a word that went out of use.
func (r *ring) dropped(old uint64) {
	r.older += inflightOf(old)
	r.taken -= endedOf(old)
}

// end takes a call out of flight, right after a settling. It tells whether
// the call was in flight, which a permit that was copied and handed back twice
// is not, and whether settle counted it among the hung.
func (r *ring) end(w *word, slot int64) (inFlight, hung bool) {
	// Tags repeat after half a million turns, so none is trusted past the two
	// that settle leaves in use.
	if r.settled-slot <= 2*slots {
		tag := tagOf(slot)
		for old := w.Load(); hasTag(old, tag); old = w.Load() {
			if inflightOf(old) == 0 {
				return false, false
			}
			if w.CompareAndSwap(old, old-inflightOne) {
				return true, slot < r.settled
			}
		}
	}
	if r.older == 0 {
		return false, false
	}
	r.older--
	return true, true
}

// inflightCounts is what a ring holds.
type inflightCounts struct {
	// ended is how many calls have ended well since the last settling.
	ended int
	// calls is how many are in flight, hung how many of them hang.
	calls, hung int
}

// settle counts what is in the ring. now does not go back from one settling to
// the next.
func (r *ring) settle(now time.Duration) inflightCounts {
	var n inflightCounts
	slotNow := slotAt(now, r.shift)
	r.settled = slotNow
	tagNow := tagOf(slotNow)
	for _, c := range r.cells {
		for i := range c {
			w := &c[i]
			old := w.Load()
			for old != 0 {
				turns := turnsApart(old>>tagShift, tagNow)
				kept := old
				// No word is two turns ahead of the latest time known: its tag is so far
				// behind that it has come round.
				if turns < -1 || turns > 1 {
					kept = 0
				} else if endedOf(old) > endedMax/2 {
					kept &^= endedMask
				}
				if kept != old && !w.CompareAndSwap(old, kept) {
					old = w.Load()
					continue
				}
				switch {
				case kept == 0:
					r.dropped(old)
				case kept != old:
					r.taken -= endedOf(old)
				default:
					n.ended += endedOf(old)
				}
				if kept != 0 {
					n.calls += inflightOf(old)
					if turns < 0 || turns == 0 && int64(i) < place(slotNow) {
						n.hung += inflightOf(old)
					}
				}
				break
			}
		}
	}
	n.ended, r.taken = n.ended-r.taken, n.ended
	n.calls += r.older
	n.hung += r.older
	return n
}

// shut takes everything out of the ring and leaves no word in use, so that
// whoever still holds the ring must come to the lock.
func (r *ring) shut() (ended, calls int) {
	for _, c := range r.cells {
		for i := range c {
			r.dropped(c[i].Swap(0))
		}
	}
	ended, calls = -r.taken, r.older
	r.taken, r.older = 0, 0
	return ended, calls
}

// retire shuts the ring if no call is in it, and tells whether it did. When it
// did not, the words that it has shut are taken into use again by the next call.
func (r *ring) retire() bool {
	if r.older > 0 {
		return false
	}
	for _, c := range r.cells {
		for i := range c {
			for old := c[i].Load(); old != 0; old = c[i].Load() {
				if inflightOf(old) > 0 {
					return false
				}
				if c[i].CompareAndSwap(old, 0) {
					r.dropped(old)
				}
			}
		}
	}
	// What is left to take into account ended since the last settling.
	return r.taken == 0
}

// turnsApart is how many turns of the ring the first tag is ahead of the second.
func turnsApart(a, b uint64) int {
	d := int(a-b) & turnMask
	if d > turnMask/2 {
		d -= turnMask + 1
	}
	return d
}
