package breaker

// Outcome is what a call says about its dependency.
type Outcome uint8

const (
	// Success: the dependency answered, be it with a "no".
	Success Outcome = iota
	// Failure: the dependency did not do its work.
	Failure
	// Ignored: the call says nothing about the dependency (cancelled by the
	// caller, rate-limited). It never enters the failure rate, but counts as
	// slow when it had already passed the latency threshold.
	Ignored
)

// String gives "success", "failure" or "ignored".
func (o Outcome) String() string {
	switch o {
	case Success:
		return "success"
	case Failure:
		return "failure"
	default:
		return "ignored"
	}
}
