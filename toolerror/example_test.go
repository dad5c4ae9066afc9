package toolerror_test

import (
	"errors"
	"fmt"
	"net/http"

	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/toolerror"
)

func show(err error) {
	if err == nil {
		fmt.Println("no error")
		return
	}
	var app *temporal.ApplicationError
	errors.As(err, &app)
	fmt.Println(app.Type(), "- retried:", !app.NonRetryable())
}

// The error's type is the name of the status. Temporal retries it only if another
// attempt can help.
func ExampleFromResponse() {
	for _, status := range []int{200, 404, 429, 503} {
		show(toolerror.FromResponse(&http.Response{StatusCode: status}))
	}
	// Output:
	// no error
	// NotFound - retried: false
	// TooManyRequests - retried: true
	// ServiceUnavailable - retried: true
}

// Of is for tools that need the status, or an error message of their own.
func ExampleOf() {
	h := toolerror.Of(&http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {"20"}}})
	fmt.Println(h)
	show(h.Application("the carrier has no label printer"))
	// Output:
	// HTTP 503 Service Unavailable, retry after 20s
	// ServiceUnavailable - retried: true
}
