package breaker

import "time"

// rampShare lets a share of calls pass, exactly and without chance: of any 100
// calls in a row, share are admitted, evenly spread.
type rampShare struct {
	share int
	debt  int
	last  time.Duration
	begun bool
}

// set begins a step at the given percentage. Its first call is admitted.
func (r *rampShare) set(share int) {
	if r.share != share {
		*r = rampShare{share: share, debt: 100 - share, last: r.last}
	}
}

// admit decides one call. A key so quiet that nothing passed for floor gets
// one call through whatever its share: a ramp learns from calls alone.
func (r *rampShare) admit(now, floor time.Duration) bool {
	r.debt += r.share
	if r.debt >= 100 {
		r.debt -= 100
	} else if now-r.last < floor || !r.begun {
		return false
	} else {
		r.debt = 0
	}
	r.last, r.begun = now, true
	return true
}
