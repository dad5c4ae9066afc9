package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// OpenAI is a model behind an endpoint that speaks OpenAI's chat completions,
// whoever runs it. Make one with NewOpenAI.
type OpenAI struct {
	model  string
	client openai.Client
}

// NewOpenAI gives the model of this name. Endpoint and key are those that the
// environment configures (OPENAI_BASE_URL, OPENAI_API_KEY), unless options say
// otherwise: rungs of a ladder may live at several providers.
//
// The SDK retries nothing, Temporal does: each attempt is one that the breaker
// sees. A call has the time that its activity has.
func NewOpenAI(model string, options ...option.RequestOption) OpenAI {
	options = append([]option.RequestOption{option.WithMaxRetries(0), option.WithMiddleware(bounded)}, options...)
	return OpenAI{model: model, client: openai.NewClient(options...)}
}

const instructions = `You answer support tickets of a web shop about orders and their parcels.
Use the tools to find out what the customer wants to know; call several at once where none needs another's answer.
A tool may answer that it is unavailable, and what to do: heed it, and do not call that tool again.
End with the tool ` + finish + `. When something could not be found out, answer with what you have, set partial, and say in escalation what a colleague has to do.`

// finish is the tool by which a model ends the run; its arguments are an Answer.
// Nobody executes it.
const finish = "finish"

var finishManual = manual{
	description: "End the ticket with an answer to the customer.",
	parameters: object(map[string]any{
		"text":       text("The answer to the customer."),
		"partial":    map[string]any{"type": "boolean", "description": "Some of what was asked could not be found out."},
		"escalation": text("What a colleague has to do, empty when nothing."),
	}, "text", "partial"),
}

// Next asks the model for its next turn.
func (m OpenAI) Next(ctx context.Context, c Conversation) (Turn, error) {
	// The SDK's own error has the status only where the body is the API's JSON, and
	// what stands between here and the API often answers with something else.
	var response *http.Response
	completion, err := m.client.Chat.Completions.New(ctx, m.request(c), option.WithResponseInto(&response))
	if err != nil {
		return Turn{}, m.failed(ctx, response, err)
	}
	if completion == nil || len(completion.Choices) == 0 {
		return Turn{}, m.unusable("it has no choices")
	}
	return m.turn(c, completion.Choices[0].Message)
}

func (m OpenAI) request(c Conversation) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model: m.model,
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(instructions),
			openai.UserMessage(c.Ticket.prompt()),
		},
		Tools: []openai.ChatCompletionToolUnionParam{finishManual.definition(finish)},
	}
	for _, tool := range c.Tools {
		p.Tools = append(p.Tools, manuals[tool].definition(tool))
	}
	for i, said := range c.Transcript {
		id := fmt.Sprintf("call_%d", i)
		p.Messages = append(p.Messages, said.Call.message(id), openai.ToolMessage(said.Text, id))
	}
	return p
}

func (t Ticket) prompt() string {
	p := fmt.Sprintf("Ticket about order %s: %s", t.OrderID, t.Question)
	if t.Return {
		p += "\nThe customer wants to send the parcel back and needs a return label."
	}
	return p
}

func (m manual) definition(tool string) openai.ChatCompletionToolUnionParam {
	return openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: tool, Description: openai.String(m.description), Parameters: m.parameters,
	})
}

// functionName is what the API takes for one, also when it comes back to it.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// message is a call as the model made it, but for what the API, or the template
// that the model is prompted with, would choke on.
func (c Call) message(id string) openai.ChatCompletionMessageParamUnion {
	f := openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: c.Tool, Arguments: string(c.Args)}
	if !functionName.MatchString(f.Name) {
		f.Name = "unknown"
	}
	if f.Arguments == "" {
		f.Arguments = "{}"
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &openai.ChatCompletionAssistantMessageParam{
		ToolCalls: []openai.ChatCompletionMessageToolCallUnionParam{{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{ID: id, Function: f},
		}},
	}}
}

// turn reads what the model wants. One that calls tools and ends at once has not
// read what it called for, so the calls go first.
func (m OpenAI) turn(c Conversation, said openai.ChatCompletionMessage) (Turn, error) {
	var t Turn
	end := ""
	for _, call := range said.ToolCalls {
		if name := call.Function.Name; name != finish {
			t.Calls = append(t.Calls, Call{Tool: name, Args: arguments(name, call.Function.Arguments)})
			continue
		}
		end = call.Function.Arguments
	}
	switch {
	case len(t.Calls) > 0:
	case end != "":
		if json.Unmarshal([]byte(end), &t.Answer) != nil || t.Answer == nil || t.Answer.Text == "" {
			return Turn{}, m.unusable("the arguments of " + finish + " are none")
		}
		if t.Answer.Partial && t.Answer.Escalation == "" {
			t.Answer.Escalation = strings.TrimSpace("The model calls its answer partial. " + gaps(c))
		}
	case strings.TrimSpace(said.Content) != "":
		// Plain text does not say what is missing; the transcript does.
		missing := gaps(c)
		t.Answer = &Answer{Text: said.Content, Partial: missing != "", Escalation: missing}
	case said.Refusal != "":
		t.Answer = unfinished(c, "The model declined to answer.")
	default:
		return Turn{}, m.unusable("it is empty")
	}
	return t, nil
}

// arguments are what the model wrote, or nothing where the tool could not read
// it.
func arguments(tool, written string) json.RawMessage {
	takes := decodesInto[map[string]any]
	if m, known := manuals[tool]; known {
		takes = m.takes
	}
	if args := json.RawMessage(written); takes(args) {
		return args
	}
	return nil
}

// maxAnswer bounds an answer of the API, which the SDK reads as a whole, so that
// the turn fits into a history however its text is escaped there. What is longer
// is cut off, and no JSON.
const maxAnswer = 256 << 10

func bounded(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	response, err := next(r)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxAnswer), response.Body}
	}
	return response, err
}
