package breaker

import "time"

// rampShare lets an exact, evenly spread share of calls pass: of any 100 consecutive
// calls, share are admitted. It uses no random numbers.
type rampShare struct {
	share int
	// debt is the share of calls not yet admitted, in hundredths of a call.
	debt int
	// last is when a call was last admitted, if begun.
	last  time.Duration
	begun bool
}

// set begins a step at the given percentage. Its first call is admitted.
func (r *rampShare) set(share int) {
	if r.share != share {
		*r = rampShare{share: share, debt: 100 - share, last: r.last, begun: r.begun}
	}
}

// admit decides one call. If nothing was admitted for floor, one call passes early,
// because only calls move a ramp on. Later calls make up for it.
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
