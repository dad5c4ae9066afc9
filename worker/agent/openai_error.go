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
	typeNotSent         = "RequestNotSent"
)

// failed returns the error of a call that gave no completion. It leaves out the
// client's own error: that may hold the address and parts of the prompt, and errors
// are stored in the workflow's history.
func (m OpenAI) failed(ctx context.Context, x *exchange, err error) error {
	var net interface{ Timeout() bool }
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	case ctx.Err() != nil, errors.As(err, &net) && net.Timeout():
		return temporal.NewApplicationErrorWithCause(m.model+" did not answer in time", typeTimeout, context.DeadlineExceeded)
	case !x.sent:
		return temporal.NewNonRetryableApplicationError(
			m.model+" was not asked: the client refuses this model with tools, or OPENAI_BASE_URL is not a URL", typeNotSent, nil)
	case x.response == nil:
		return temporal.NewApplicationError(m.model+" could not be reached", typeNoConnection)
	case x.response.StatusCode >= http.StatusMultipleChoices:
		return toolerror.Of(x.response).Application(m.model + " did not answer")
	}
	return m.unusable("it cannot be read")
}

// unusable is the error of an answer that is no turn. It can be retried: a model
// seldom says the same twice.
func (m OpenAI) unusable(why string) error {
	return temporal.NewApplicationError(fmt.Sprintf("the answer of %s is unusable: %s", m.model, why), typeBadAnswer)
}
