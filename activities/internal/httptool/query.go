package httptool

import (
	"fmt"
	"regexp"

	"go.temporal.io/sdk/temporal"
)

// A model makes these values, and they become part of a URL.
var identifier = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckID rejects a value that is not an identifier: 1 to 64 letters, digits, dots,
// hyphens and underscores, beginning with a letter or digit. The error has the type
// TypeInvalidQuery and is not retryable. It names the field and not the value.
func CheckID(field, value string) error {
	if identifier.MatchString(value) {
		return nil
	}
	return temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("%s must be 1 to 64 letters, digits, dots, hyphens or underscores", field),
		TypeInvalidQuery, nil)
}
