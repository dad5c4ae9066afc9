package breaker

import "time"

// Verdict is what a fleet decided about a key.
type Verdict struct {
	State State `json:"state"`
	// Epoch grows with each verdict of a key, over all its outages. A verdict whose epoch
	// is not greater than the current one changes nothing.
	Epoch int64 `json:"epoch"`
	// Reason is why the outage began, or why the breaker opened again.
	Reason Reason `json:"reason"`
	// Since is when the outage began.
	Since time.Time `json:"since"`
	// Next is when this state is due to end: the next probe while open, the end
	// of the step while recovering, the expiry of a forced state.
	Next time.Time `json:"next"`
	// Share is the percentage of calls to let pass while recovering.
	Share int `json:"share,omitempty"`
	// Step is the ramp step, from 0, while recovering.
	Step int `json:"step,omitempty"`
	// Outage is the ID of the outage workflow.
	Outage string `json:"outage"`
}

// Transition is one state change of a breaker.
type Transition struct {
	Key  Key
	From State
	To   State
	// At is the wall-clock time of the transition.
	At time.Time
	// Reason is why the breaker tripped. It is zero on transitions to closed.
	Reason Reason
	// Evidence is what the window held at the transition.
	Evidence Evidence
	// HoldOff is how much longer the dependency wants no calls; see [Breaker.HoldOff].
	// 0: it did not say.
	HoldOff time.Duration
	// Local is true when this process decided, and false when a verdict of the fleet did.
	Local bool
	// Edge numbers the transitions of this breaker from 1, so that gaps are visible.
	Edge int64
}

// Refusal is why a call was refused. All refusals of one state share it, so do not
// modify it.
type Refusal struct {
	Key   Key
	State State
	// Reason is why the breaker tripped.
	Reason Reason
	// Since is when the outage began.
	Since time.Time
	// RetryAt is when a retry may succeed.
	RetryAt time.Time
	// Outage is the outage workflow's ID, empty while there is none.
	Outage string
}
