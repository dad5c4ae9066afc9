package breaker

import "time"

// rampShare lets a share of calls pass, exactly and without chance: of any 100
// calls in a row, share are admitted, evenly spread.
type rampShare struct {
	share int
	// debt is what is owed to callers, in hundredths of a call.
	debt int
	// last is when a call was last admitted. It is valid once one was: begun.
	last  time.Duration
	begun bool
}

// set begins a step at the given percentage. Its first call is admitted.
func (r *rampShare) set(share int) {
	if r.share != share {
		*r = rampShare{share: share, debt: 100 - share, last: r.last, begun: r.begun}
	}
}

// admit decides one call. A key so quiet that nothing passed for floor gets one
// call through ahead of its turn, because a ramp learns from calls alone. It is
// paid back by the calls after it.
func (r *rampShare) admit(now, floor time.Duration) bool {
	r.debt += r.share
	quiet := r.begun && now-r.last >= floor
	if r.debt < 100 && !quiet {
		return false
	}
	r.debt = max(r.debt-100, -100)
	r.last, r.begun = now, true
	return true
}
