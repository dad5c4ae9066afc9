package breaker

import "time"

// Verdict is what a fleet decided about a key.
type Verdict struct {
	State State `json:"state"`
	// Epoch grows with each verdict of a key, over all its outages. A verdict
	// that is not newer than the one in force changes nothing.
	Epoch int64 `json:"epoch"`
	// Reason is why the outage began, or why it went back to open.
	Reason Reason `json:"reason"`
	// Since is when the outage was opened.
	Since time.Time `json:"since"`
	// Next is when this state is due to end: the next probe while open, the end
	// of the step while recovering, the expiry of a forced state.
	Next time.Time `json:"next"`
	// Share is the percentage of calls to let pass while recovering.
	Share int `json:"share,omitempty"`
	// Step is the ramp step, from 0, while recovering.
	Step int `json:"step,omitempty"`
	// Outage is the ID of the workflow that decided.
	Outage string `json:"outage"`
}

// Transition is one edge of a breaker's state machine.
type Transition struct {
	Key  Key
	From State
	To   State
	// At is the wall-clock time of the edge.
	At time.Time
	// Reason is the trip's. It is zero on edges to closed.
	Reason Reason
	// Evidence is what the window held when the edge was taken.
	Evidence Evidence
	// HoldOff is for how much longer the dependency asked to be left alone; see
	// [Breaker.HoldOff]. 0: it did not.
	HoldOff time.Duration
	// Local is true when this process took the edge by itself, false when a
	// verdict of the fleet did.
	Local bool
	// Edge numbers the transitions of this breaker from 1, so that a gap shows.
	Edge int64
}

// Refusal is why a call was not let pass. It stays the same for as long as the
// breaker's state does; do not change it.
type Refusal struct {
	Key   Key
	State State
	// Reason is the trip's, frozen.
	Reason Reason
	// Since is when the outage began.
	Since time.Time
	// RetryAt is when it is worth asking again.
	RetryAt time.Time
	// Outage is the outage workflow's ID, empty while only this process knows.
	Outage string
}
