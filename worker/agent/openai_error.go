package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/toolerror"
)

// The types of a model's errors. The type of an HTTP error is its status text, such
// as Unauthorized or TooManyRequests.
const (
	typeTooManyRequests = "TooManyRequests"
	typeTimeout         = "Timeout"
	typeNoConnection    = "ConnectionFailed"
	typeBadAnswer       = "BadAnswer"
	typeNotSent         = "RequestNotSent"
)

// callError returns the error of a call that gave no completion. It leaves out the
// client's own error: that may hold the address and parts of the prompt, and errors
// are stored in the workflow's history.
func (m OpenAI) callError(ctx context.Context, x *exchange, err error) error {
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
	return m.badAnswer("it is not valid JSON")
}

// badAnswer returns the error of an answer that cannot be decoded. It is retryable:
// a model may answer differently next time.
func (m OpenAI) badAnswer(why string) error {
	return temporal.NewApplicationError(fmt.Sprintf("the answer of %s cannot be used: %s", m.model, why), typeBadAnswer)
}
