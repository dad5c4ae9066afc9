package breaker

// Outcome is what a call shows about its dependency.
type Outcome uint8

const (
	// Success: the dependency answered, even if the answer was a refusal such as 404.
	Success Outcome = iota
	// Failure: the dependency did not do its work.
	Failure
	// Ignored: the call shows nothing about the dependency, for example because it was
	// cancelled or rate-limited. It is no sample, except when it had already passed the
	// latency threshold. Then it counts as slow.
	Ignored
)

// String returns "success", "failure" or "ignored".
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
