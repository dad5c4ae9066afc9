package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/sashabaranov/go-openai"
)

// OpenAI is a model behind an endpoint that serves OpenAI's chat completions API.
// Make one with NewOpenAI or NewOpenAIWithConfig.
type OpenAI struct {
	model  string
	config openai.ClientConfig
}

// NewOpenAI returns the model of this name at the endpoint that OPENAI_BASE_URL
// names, with the key in OPENAI_API_KEY.
func NewOpenAI(model string) OpenAI {
	config := openai.DefaultConfig(os.Getenv("OPENAI_API_KEY"))
	config.BaseURL = cmp.Or(os.Getenv("OPENAI_BASE_URL"), config.BaseURL)
	return NewOpenAIWithConfig(model, config)
}

// NewOpenAIWithConfig returns the model of this name at the endpoint that config
// names. Models of one agent may be served by several providers.
//
// The client does not retry. Temporal does, so the breaker sees each attempt. A
// call is bounded by the deadline of its activity.
func NewOpenAIWithConfig(model string, config openai.ClientConfig) OpenAI {
	return OpenAI{model: model, config: config}
}

const instructions = `You answer support tickets of a web shop about orders and their parcels.
Use the tools to find out what the customer wants to know; call several at once where none needs another's answer.
A tool may answer that it is unavailable, and what to do: do that, and do not call that tool again.
End with the tool ` + finish + `. When something could not be found out, answer with what you have, set partial, and say in escalation what a colleague has to do.`

// finish is the tool with which a model ends the run. Its arguments are an Answer.
// It is never executed.
const finish = "finish"

var finishSpec = toolSpec{
	description: "End the ticket with an answer to the customer.",
	parameters: object(map[string]any{
		"text":       text("The answer to the customer."),
		"partial":    map[string]any{"type": "boolean", "description": "Part of the question could not be answered."},
		"escalation": text("What a colleague has to do. Empty if nothing."),
	}, "text", "partial"),
}

// Next asks the model for its next turn.
func (m OpenAI) Next(ctx context.Context, c Conversation) (Turn, error) {
	config := m.config
	x := &exchange{client: config.HTTPClient}
	config.HTTPClient = x
	completion, err := openai.NewClientWithConfig(config).CreateChatCompletion(ctx, m.request(c))
	if err != nil {
		return Turn{}, m.callError(ctx, x, err)
	}
	if len(completion.Choices) == 0 {
		return Turn{}, m.badAnswer("it has no choices")
	}
	return m.turn(c, completion.Choices[0].Message)
}

func (m OpenAI) request(c Conversation) openai.ChatCompletionRequest {
	r := openai.ChatCompletionRequest{
		Model: m.model,
		Messages: []openai.ChatCompletionMessage{
			{Role: openai.ChatMessageRoleSystem, Content: instructions},
			{Role: openai.ChatMessageRoleUser, Content: c.Ticket.prompt()},
		},
		Tools: []openai.Tool{finishSpec.definition(finish)},
	}
	for _, tool := range c.Tools {
		r.Tools = append(r.Tools, toolSpecs[tool].definition(tool))
	}
	for i, past := range c.Transcript {
		id := fmt.Sprintf("call_%d", i)
		r.Messages = append(r.Messages, past.Call.message(id),
			openai.ChatCompletionMessage{Role: openai.ChatMessageRoleTool, Content: past.Text, ToolCallID: id})
	}
	return r
}

func (t Ticket) prompt() string {
	p := fmt.Sprintf("Ticket about order %s: %s", t.OrderID, t.Question)
	if t.Return {
		p += "\nThe customer wants to send the parcel back and needs a return label."
	}
	return p
}

func (s toolSpec) definition(tool string) openai.Tool {
	return openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
		Name: tool, Description: s.description, Parameters: s.parameters,
	}}
}

// functionName matches the names that the API accepts for a function.
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// message returns the call as the model made it. A name or arguments that the API
// would refuse are replaced.
func (c Call) message(id string) openai.ChatCompletionMessage {
	f := openai.FunctionCall{Name: c.Tool, Arguments: string(c.Args)}
	if !functionName.MatchString(f.Name) {
		f.Name = "unknown"
	}
	if f.Arguments == "" {
		f.Arguments = "{}"
	}
	return openai.ChatCompletionMessage{
		Role:      openai.ChatMessageRoleAssistant,
		ToolCalls: []openai.ToolCall{{ID: id, Type: openai.ToolTypeFunction, Function: f}},
	}
}

// turn decodes the model's message. If it both calls tools and finishes, the calls
// count: the model has not read their results yet.
func (m OpenAI) turn(c Conversation, message openai.ChatCompletionMessage) (Turn, error) {
	var t Turn
	finishArgs := ""
	for _, call := range message.ToolCalls {
		if name := call.Function.Name; name != finish {
			t.Calls = append(t.Calls, Call{Tool: name, Args: arguments(name, call.Function.Arguments)})
			continue
		}
		finishArgs = call.Function.Arguments
	}
	switch {
	case len(t.Calls) > 0:
	case finishArgs != "":
		if json.Unmarshal([]byte(finishArgs), &t.Answer) != nil || t.Answer == nil || t.Answer.Text == "" {
			return Turn{}, m.badAnswer("the arguments of " + finish + " are not an answer")
		}
		if t.Answer.Partial && t.Answer.Escalation == "" {
			t.Answer.Escalation = strings.TrimSpace("The model marked its answer as partial. " + failedTools(c))
		}
	case strings.TrimSpace(message.Content) != "":
		// Plain text does not say what is missing. The transcript does.
		missing := failedTools(c)
		t.Answer = &Answer{Text: message.Content, Partial: missing != "", Escalation: missing}
	case message.Refusal != "":
		t.Answer = partialAnswer(c, "The model declined to answer.")
	default:
		return Turn{}, m.badAnswer("it is empty")
	}
	return t, nil
}

// arguments returns what the model wrote, or nil if the tool could not decode it.
func arguments(tool, written string) json.RawMessage {
	accepts := decodesInto[map[string]any]
	if s, known := toolSpecs[tool]; known {
		accepts = s.accepts
	}
	if args := json.RawMessage(written); accepts(args) {
		return args
	}
	return nil
}

// maxAnswer bounds the body of a response, so that the turn fits into a workflow's
// history with its text escaped. A longer body is cut off and fails to parse.
const maxAnswer = 256 << 10

// exchange is the HTTP client of one call. It bounds the response's body and keeps
// the response: the client's own errors hold no Retry-After.
type exchange struct {
	client   openai.HTTPDoer
	sent     bool
	response *http.Response
}

func (x *exchange) Do(r *http.Request) (*http.Response, error) {
	x.sent = true
	response, err := x.client.Do(r)
	if err != nil {
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxAnswer), response.Body}
	x.response = response
	return response, nil
}
