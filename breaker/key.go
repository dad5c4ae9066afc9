package breaker

import (
	"errors"
	"fmt"
	"strings"
)

// Key names what one breaker guards: a dependency in a region. Tools that call the
// same dependency share one key.
type Key struct {
	// Dependency is the service that can be down, for example "carrier-api".
	Dependency string `json:"dependency"`
	// Region is where it can be down independently, for example "eu-west".
	Region string `json:"region"`
}

// String returns "dependency/region".
func (k Key) String() string { return k.Dependency + "/" + k.Region }

// Validate checks both names with [ValidateName].
func (k Key) Validate() error {
	var errs []error
	if err := ValidateName(k.Dependency); err != nil {
		errs = append(errs, fmt.Errorf("dependency %w", err))
	}
	if err := ValidateName(k.Region); err != nil {
		errs = append(errs, fmt.Errorf("region %w", err))
	}
	return errors.Join(errs...)
}

// maxNameLength keeps workflow IDs, search attributes and details short.
const maxNameLength = 100

// ValidateName checks the name of a dependency or a region. A name is 1 to 100 bytes
// of ASCII letters, digits and the characters . _ - : @, because it becomes part of
// workflow IDs, search attributes and JSON.
func ValidateName(s string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case len(s) > maxNameLength:
		return fmt.Errorf("is %d bytes long; at most %d are allowed", len(s), maxNameLength)
	case strings.ContainsFunc(s, func(r rune) bool { return !isNameRune(r) }):
		return fmt.Errorf("%q must be made of letters, digits and the characters . _ - : @", s)
	}
	return nil
}

func isNameRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-:@", r)
}
