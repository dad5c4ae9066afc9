package breaker

import "fmt"

// State is the state of a breaker. The zero State is [Closed].
type State uint8

const (
	// Closed lets every call pass and counts outcomes.
	Closed State = iota
	// Open refuses every call while the cooldown runs.
	Open
	// HalfOpen still refuses every call. Only probes reach the dependency.
	HalfOpen
	// Recovering lets a growing share of calls pass.
	Recovering
	// ForcedOpen refuses every call until an operator's decision expires.
	ForcedOpen
	// ForcedClosed lets every call pass and counts outcomes, but does not trip, until an
	// operator's decision expires.
	ForcedClosed
)

var stateNames = [...]string{
	Closed: "closed", Open: "open", HalfOpen: "half-open", Recovering: "recovering",
	ForcedOpen: "forced-open", ForcedClosed: "forced-closed",
}

// String returns the state's name, such as "half-open".
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's name. An unknown name is an error.
func (s *State) UnmarshalText(text []byte) error {
	for i, name := range stateNames {
		if name == string(text) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("unknown breaker state %q", text)
}
