package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/toolerror"
)

// The types of a model's errors. An answer other than 2xx has its status's name
// for a type, such as Unauthorized or TooManyRequests.
const (
	typeTooManyRequests = "TooManyRequests"
	typeTimeout         = "Timeout"
	typeNoConnection    = "ConnectionFailed"
	typeBadAnswer       = "BadAnswer"
)

// failed is the error of a call that the SDK found no completion in. The SDK's own
// is left out: it may hold the address, and words of the API's that repeat the
// prompt, and errors end up in a workflow's history.
func (m OpenAI) failed(ctx context.Context, response *http.Response, err error) error {
	var net interface{ Timeout() bool }
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case ctx.Err() != nil, errors.As(err, &net) && net.Timeout():
		return temporal.NewApplicationErrorWithCause(m.model+" did not answer in time", typeTimeout, context.DeadlineExceeded)
	case response == nil:
		return temporal.NewApplicationError(m.model+" could not be reached", typeNoConnection)
	case response.StatusCode >= http.StatusMultipleChoices:
		return toolerror.Of(response).Application(m.model + " did not answer")
	}
	return m.unusable("it cannot be read")
}

// unusable is the error of an answer that is no turn. It can be retried: a model
// seldom says the same twice.
func (m OpenAI) unusable(why string) error {
	return temporal.NewApplicationError(fmt.Sprintf("the answer of %s is unusable: %s", m.model, why), typeBadAnswer)
}
