package carrier

import (
	"fmt"
	"slices"
	"strings"
)

// FaultKind is how a region misbehaves.
type FaultKind string

// The kinds of fault. In each but Lying the health endpoint shows the fault as
// the API does.
const (
	Healthy     FaultKind = "healthy"      // answers after its work
	Hang        FaultKind = "hang"         // accepts and never answers, calls being worked on included
	Slow        FaultKind = "slow"         // answers after ten times its work
	Error       FaultKind = "error"        // 503 after 50 ms
	Flaky       FaultKind = "flaky"        // 503 for a share of the calls, the rest as if healthy
	RateLimited FaultKind = "rate-limited" // 429 after 50 ms, with a Retry-After of 5 s
	Lying       FaultKind = "lying"        // as Error, while the health endpoint says that all is well
)

var faultKinds = []FaultKind{Healthy, Hang, Slow, Error, Flaky, RateLimited, Lying}

// Fault is what is wrong with a region. The zero value is Healthy.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Share is the part of calls, from 0 to 1, that a Flaky region fails. It is
	// zero for every other kind.
	Share float64 `json:"share,omitzero"`
}

// check completes f or says what is wrong with it.
func (f Fault) check() (Fault, error) {
	if f.Kind == "" {
		f.Kind = Healthy
	}
	if !slices.Contains(faultKinds, f.Kind) {
		return f, fmt.Errorf("unknown fault kind %q: use %s", f.Kind, oneOf(faultKinds))
	}
	if !(f.Share >= 0 && f.Share <= 1) {
		return f, fmt.Errorf("share must be a number from 0 to 1, got %v", f.Share)
	}
	if f.Share != 0 && f.Kind != Flaky {
		return f, fmt.Errorf("share belongs to fault kind %q, not to %q", Flaky, f.Kind)
	}
	return f, nil
}

// oneOf lists allowed values for an error message: "a, b or c".
func oneOf[T ~string](values []T) string {
	var b strings.Builder
	for i, v := range values {
		switch {
		case i == 0:
		case i == len(values)-1:
			b.WriteString(" or ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(string(v))
	}
	return b.String()
}
