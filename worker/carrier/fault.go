package carrier

import (
	"fmt"
	"slices"
	"strings"
)

// FaultKind is the kind of a fault.
type FaultKind string

// The kinds of fault. The health endpoint has the same fault as the API, except for
// Lying.
const (
	Healthy     FaultKind = "healthy"      // answers after the normal duration
	Hang        FaultKind = "hang"         // accepts calls and never answers, including calls in progress
	Slow        FaultKind = "slow"         // answers after ten times the normal duration
	Error       FaultKind = "error"        // 503 after 50 ms
	Flaky       FaultKind = "flaky"        // 503 after 50 ms for a share of the calls, the rest as Healthy
	RateLimited FaultKind = "rate-limited" // 429 after 50 ms, with a Retry-After of 5 s
	Lying       FaultKind = "lying"        // as Error, but the health endpoint answers 200
)

var faultKinds = []FaultKind{Healthy, Hang, Slow, Error, Flaky, RateLimited, Lying}

// Fault is a region's fault. The zero value is Healthy.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Share is the share of calls that a Flaky region fails, from 0 to 1. It must be
	// zero for every other kind.
	Share float64 `json:"share,omitzero"`
}

// check returns f with its defaults, or an error if it is invalid.
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
		return f, fmt.Errorf("share is only valid for fault kind %q, not for %q", Flaky, f.Kind)
	}
	return f, nil
}

// oneOf lists allowed values as "a, b or c".
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
