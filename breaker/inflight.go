package breaker

import (
	"math/bits"
	"sync/atomic"
	"time"
	"unsafe"
)

// Calls in flight are counted by the slot of time that holds begin + latency, when
// they begin to hang. A call costs one addition at its begin and one at its end,
// without a timer or a list. Calls with different thresholds work the same way: each
// hangs once its slot is over.
//
// A slot is a sixteenth of the threshold wide, rounded down to a power of two so that
// a shift finds it. So a hanging call is found at most a sixteenth of its threshold
// late. Thresholds with the same power of two share a [ring], so a breaker whose tools
// have similar thresholds has one.
const (
	slotBits = 6
	// slots reach twice as far as the farthest deadline. So a place is reused only by a
	// deadline that is at least one ring later.
	slots = 1 << slotBits

	// maxCells is how many copies of a ring there are once goroutines collide. A copy
	// is half a KiB.
	maxCells = 8
	// collisionsToSpread is the number of lost races that cause the first spread.
	collisionsToSpread = 16
	// maxPatience bounds how rarely a ring is spread. Each spread needs twice as many
	// lost races as the one before, up to 2^12 times as many, because with more
	// goroutines than cells some collisions remain.
	maxPatience = 12
)

// A word of a ring counts one slot:
//
//	tag 20 bits | successful calls 24 | calls in flight 20
//
// The tag is the turn of the ring that the counts belong to, and 0 while the word is
// not in use. Each change is a compare-and-swap. So a call that finds its tag has
// counted in the right slot, and clearing the tag closes the word for all goroutines.
//
// Successful calls are counted here and not in the window, so that the end of a
// successful call is one addition.
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

// latencyClass is the same for all thresholds with the same power of two.
func latencyClass(latency time.Duration) uint8 { return uint8(bits.Len64(uint64(latency))) }

// slotShift is the binary logarithm of a slot's width in nanoseconds. minDuration
// keeps it from being negative.
func slotShift(class uint8) uint8 { return class - 5 }

// slotAt is the slot of a time. The mask saves the compiler a check.
func slotAt(at time.Duration, shift uint8) int64 { return int64(at >> (shift & 63)) }

// slotOf is the slot in which a call begins to hang.
func slotOf(begun, latency time.Duration) int64 {
	return slotAt(begun+latency, slotShift(latencyClass(latency)))
}

// cell is one copy of a ring's words.
type cell [slots]word

// ring counts the calls in flight whose thresholds have the same power of two.
// Breaker.mu guards everything except the words of its cells.
type ring struct {
	class uint8
	shift uint8
	// cells has length 1 or maxCells. Any of them may count a call.
	cells []*cell
	// older counts the calls whose word was reused or is out of use. They all hang.
	older int
	// taken is how many successes of the words in use have been added to the window.
	taken int
	// settled is the slot of the last settling.
	settled int64
}

func newRing(class uint8) *ring {
	return &ring{class: class, shift: slotShift(class), cells: []*cell{new(cell)}}
}

// spread gives each stripe its own cell.
func (r *ring) spread() {
	for len(r.cells) < maxCells {
		r.cells = append(r.cells, new(cell))
	}
}

// firstSeed is 2^64 divided by the golden ratio. Its multiples are evenly spread.
const firstSeed = 0x9e3779b97f4a7c15

// seed is the seed of the n-th spread. Multiples of firstSeed would separate mostly
// the same goroutines; rotating its bits does not.
func seed(n uint32) uint64 { return bits.RotateLeft64(firstSeed, int(7*n)) | 1 }

// spreadAt is how many collisions cause the next spread.
func spreadAt(n uint32) uint32 { return collisionsToSpread << min(n, maxPatience) }

// stripe spreads goroutines over the cells. The address of a local variable tells
// goroutines apart, because each has its own stack. A bad spread costs time, but
// never a count, and another odd seed gives another spread.
func stripe(seed uint64) uintptr {
	var local byte
	return uintptr(uint64(uintptr(unsafe.Pointer(&local))>>11) * seed >> 61)
}

// begin counts a call in flight. It returns the word that counts it, nil when the
// word is full.
//
// The seed is that of the gate, so that later calls without the lock find the same
// word.
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
			// This goroutine paused for a turn of the ring after it read the clock. Its call
			// hangs by now.
			r.older++
			return w
		case w.CompareAndSwap(old, tag<<tagShift|inflightOne):
			r.dropped(old)
			return w
		}
	}
}

// dropped accounts for a word that is no longer in use.
func (r *ring) dropped(old uint64) {
	r.older += inflightOf(old)
	r.taken -= endedOf(old)
}

// end ends a call in flight, right after a settling. inFlight is false for a copied
// permit that is done twice. hung is true if settle counted the call as hanging.
func (r *ring) end(w *word, slot int64) (inFlight, hung bool) {
	// Tags repeat after half a million turns. So a tag is used only within the two turns
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

// inflightCounts are the counts of a ring.
type inflightCounts struct {
	// ended is how many calls have succeeded since the last settling.
	ended int
	// calls is how many calls are in flight, hung is how many of them hang.
	calls, hung int
}

// settle counts what is in the ring. now must not go back between settlings.
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
				// No word can be two turns ahead of the latest time. Its tag is so old that it has
				// wrapped around.
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

// shut empties the ring and leaves no word in use. A goroutine that still has the
// ring must then take the lock.
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

// retire shuts the ring if it has no calls, and returns whether it did. If it did
// not, the next call reuses the words that were shut.
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
	// The remainder succeeded after the last settling.
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
