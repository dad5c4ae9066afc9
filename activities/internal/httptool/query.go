package httptool

import (
	"fmt"
	"regexp"

	"go.temporal.io/sdk/temporal"
)

// A model writes these values and they become part of a URL.
var identifier = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckID refuses a value that cannot be an identifier: 1 to 64 letters, digits,
// dots, hyphens and underscores, the first a letter or digit. The error, of type
// TypeInvalidQuery and not retryable, names the field and does not repeat the value.
func CheckID(field, value string) error {
	if identifier.MatchString(value) {
		return nil
	}
	return temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("%s must be 1 to 64 letters, digits, dots, hyphens or underscores", field),
		TypeInvalidQuery, nil)
}
