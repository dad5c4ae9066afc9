package breaker

import "fmt"

// Mode is how much a breaker may do.
type Mode string

const (
	// Enforce refuses calls according to the state. It is the default.
	Enforce Mode = "enforce"
	// Observe refuses nothing, for tuning. A call that would have been refused passes, is
	// counted as refused, and is no sample. So the states are those of [Enforce].
	Observe Mode = "observe"
	// Off lets every call pass and counts nothing. A breaker that was not closed becomes
	// closed with time.
	Off Mode = "off"
)

func (m Mode) validate() error {
	switch m {
	case Enforce, Observe, Off:
		return nil
	}
	return fmt.Errorf("%q is not one of %s, %s, %s", string(m), Enforce, Observe, Off)
}
