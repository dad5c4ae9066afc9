package breaker

import "fmt"

// Mode says how much a breaker may do.
type Mode string

const (
	// Enforce refuses calls as the state says. It is the default.
	Enforce Mode = "enforce"
	// Observe does everything but refusing, to tune by. A call that would have
	// been refused passes, is counted as refused, and leaves no sample, so that
	// the states are those of a breaker that enforces.
	Observe Mode = "observe"
	// Off lets every call pass and counts nothing. A breaker that is not closed
	// when it is turned off becomes so by time alone.
	Off Mode = "off"
)

func (m Mode) validate() error {
	switch m {
	case Enforce, Observe, Off:
		return nil
	}
	return fmt.Errorf("%q is not one of %s, %s, %s", string(m), Enforce, Observe, Off)
}
