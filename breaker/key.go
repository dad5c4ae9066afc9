package breaker

import (
	"errors"
	"fmt"
	"strings"
)

// Key names what trips: a dependency in a region. Several tools that call the
// same dependency share one key.
type Key struct {
	// Dependency is what can be down, for example "carrier-api".
	Dependency string `json:"dependency"`
	// Region is where it can be down by itself, for example "eu-west".
	Region string `json:"region"`
}

// String gives "dependency/region".
func (k Key) String() string { return k.Dependency + "/" + k.Region }

// maxNameLength keeps workflow IDs, search attributes and details short.
const maxNameLength = 100

// ValidateName tells whether s can be a dependency's or a region's name: it
// becomes part of workflow IDs, so it is not empty, holds no slash, no control
// character and no space, and is at most 100 bytes long.
func ValidateName(s string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case len(s) > maxNameLength:
		return fmt.Errorf("is %d bytes long; at most %d are allowed", len(s), maxNameLength)
	case strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f || r == '\uFFFD' }):
		return fmt.Errorf("%q must not contain spaces, slashes or control characters", s)
	}
	return nil
}
