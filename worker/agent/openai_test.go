package agent_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/activities/orders"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
	"github.com/toolbreaker/toolbreaker/worker/agent"
)

// fakeAPI is a server of the chat completions API.
type fakeAPI struct {
	url string

	mu       sync.Mutex
	requests []request
}

// request is a request as the API decodes it.
type request struct {
	authorization string

	Model    string `json:"model"`
	Messages []struct {
		Role       string `json:"role"`
		Content    string `json:"content"`
		ToolCallID string `json:"tool_call_id"`
		ToolCalls  []struct {
			ID, Type string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name, Description string
			Parameters        struct {
				Type       string
				Properties map[string]map[string]any
				Required   []string
			}
		} `json:"function"`
	} `json:"tools"`
}

func (r request) toolNames() (names []string) {
	for _, tool := range r.Tools {
		names = append(names, tool.Function.Name)
	}
	return names
}

// startFakeAPI serves the API until the test ends.
func startFakeAPI(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int)) *fakeAPI {
	t.Helper()
	p := &fakeAPI{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !assert.Equal(t, "POST /v1/chat/completions", r.Method+" "+r.URL.Path) {
			http.NotFound(w, r)
			return
		}
		body := request{authorization: r.Header.Get("Authorization")}
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&body))
		p.mu.Lock()
		p.requests = append(p.requests, body)
		n := len(p.requests)
		p.mu.Unlock()
		answer(w, r, n)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL + "/v1"
	return p
}

func (p *fakeAPI) model(name string) agent.OpenAI {
	config := openai.DefaultConfig("sk-test")
	config.BaseURL = p.url
	return agent.NewOpenAIWithConfig(name, config)
}

func (p *fakeAPI) received() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]request(nil), p.requests...)
}

// respond writes a completion with this message, a JSON text.
func respond(w http.ResponseWriter, message string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
		"choices": [{"index": 0, "finish_reason": "stop", "message": `+message+`}]}`)
}

// toolCalls returns a message that calls tools. Names and arguments alternate.
func toolCalls(namesAndArguments ...string) string {
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type call struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	m := struct {
		Role      string  `json:"role"`
		Content   *string `json:"content"`
		ToolCalls []call  `json:"tool_calls"`
	}{Role: "assistant"}
	for i := 0; i < len(namesAndArguments); i += 2 {
		m.ToolCalls = append(m.ToolCalls, call{"call_x", "function", function{namesAndArguments[i], namesAndArguments[i+1]}})
	}
	encoded, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(encoded)
}

func text(content string) string {
	encoded, _ := json.Marshal(content)
	return `{"role": "assistant", "content": ` + string(encoded) + `}`
}

const lookup, parcel = `{"order_id": "EU-1"}`, `{"tracking_id": "PKG-1", "region": "eu-west"}`

// conversation is one in which the carrier is down.
var conversation = agent.Conversation{
	Ticket: agent.Ticket{OrderID: "EU-1", Question: "Where is my parcel?", Return: true},
	Tools:  []string{orders.LookupOrder},
	Transcript: []agent.Message{
		{Call: agent.Call{Tool: orders.LookupOrder, Args: json.RawMessage(lookup)}, Text: `{"id":"EU-1"}`, Outcome: "value"},
		{Call: agent.Call{Tool: "no such tool!"}, Text: "There is no tool.", Outcome: "error"},
		{Call: agent.Call{Tool: carriertools.GetDeliveryStatus, Args: json.RawMessage(parcel)}, Text: "It is down.", Outcome: "unavailable"},
	},
}

func TestOpenAI_SendsConversationAndOfferedTools(t *testing.T) {
	t.Parallel()
	p := startFakeAPI(t, func(w http.ResponseWriter, _ *http.Request, _ int) { respond(w, text("Hello.")) })
	_, err := p.model("some/model").Next(t.Context(), conversation)
	require.NoError(t, err)
	require.Len(t, p.received(), 1)
	a := p.received()[0]
	assert.Equal(t, "some/model", a.Model)
	assert.Equal(t, "Bearer sk-test", a.authorization)
	assert.ElementsMatch(t, []string{"finish", orders.LookupOrder}, a.toolNames(), "unavailable tools are not offered")

	require.Len(t, a.Messages, 2+2*len(conversation.Transcript))
	assert.Equal(t, "system", a.Messages[0].Role)
	assert.Equal(t, "user", a.Messages[1].Role)
	for _, word := range []string{"EU-1", "Where is my parcel?", "return label"} {
		assert.Contains(t, a.Messages[1].Content, word)
	}
	ids := map[string]bool{}
	for i, past := range conversation.Transcript {
		call, answer := a.Messages[2+2*i], a.Messages[3+2*i]
		assert.Equal(t, "assistant", call.Role)
		require.Len(t, call.ToolCalls, 1)
		assert.Equal(t, "tool", answer.Role)
		assert.Equal(t, past.Text, answer.Content)
		assert.Equal(t, call.ToolCalls[0].ID, answer.ToolCallID)
		assert.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, call.ToolCalls[0].Function.Name)
		assert.True(t, json.Valid([]byte(call.ToolCalls[0].Function.Arguments)))
		ids[answer.ToolCallID] = true
	}
	assert.Len(t, ids, len(conversation.Transcript), "each call has its own ID")
}

func TestOpenAI_DescribesEveryTool(t *testing.T) {
	t.Parallel()
	p := startFakeAPI(t, func(w http.ResponseWriter, _ *http.Request, _ int) { respond(w, text("Hello.")) })
	_, err := p.model("m").Next(t.Context(), agent.Conversation{Tools: agent.Tools()})
	require.NoError(t, err)
	a := p.received()[0]
	assert.ElementsMatch(t, append(agent.Tools(), "finish"), a.toolNames())
	for _, tool := range a.Tools {
		assert.Equal(t, "function", tool.Type)
		assert.NotEmpty(t, tool.Function.Description, tool.Function.Name)
		assert.Equal(t, "object", tool.Function.Parameters.Type)
		for _, required := range tool.Function.Parameters.Required {
			assert.Contains(t, tool.Function.Parameters.Properties, required)
		}
	}
}

func TestOpenAI_DecodesTheMessage(t *testing.T) {
	t.Parallel()
	call := func(tool, args string) agent.Call { return agent.Call{Tool: tool, Args: json.RawMessage(args)} }
	for name, tt := range map[string]struct {
		message string
		want    agent.Turn
	}{
		"a tool": {toolCalls(orders.LookupOrder, lookup), agent.Turn{Calls: []agent.Call{call(orders.LookupOrder, lookup)}}},
		"several tools": {
			toolCalls(carriertools.GetDeliveryStatus, parcel, carriertools.GetTrackingEvents, parcel),
			agent.Turn{Calls: []agent.Call{call(carriertools.GetDeliveryStatus, parcel), call(carriertools.GetTrackingEvents, parcel)}},
		},
		"an invented tool":                 {toolCalls("fly", `{"to": "moon"}`), agent.Turn{Calls: []agent.Call{call("fly", `{"to": "moon"}`)}}},
		"no arguments":                     {toolCalls(orders.LookupOrder, ""), agent.Turn{Calls: []agent.Call{{Tool: orders.LookupOrder}}}},
		"arguments that are not JSON":      {toolCalls(orders.LookupOrder, `{"order_id": "EU-`), agent.Turn{Calls: []agent.Call{{Tool: orders.LookupOrder}}}},
		"arguments of another type":        {toolCalls(orders.LookupOrder, `{"order_id": 1}`), agent.Turn{Calls: []agent.Call{{Tool: orders.LookupOrder}}}},
		"arguments that are not an object": {toolCalls(orders.LookupOrder, `null`), agent.Turn{Calls: []agent.Call{{Tool: orders.LookupOrder}}}},
		"the end":                          {toolCalls("finish", `{"text": "Soon."}`), agent.Turn{Answer: &agent.Answer{Text: "Soon."}}},
		"a partial end": {
			toolCalls("finish", `{"text": "Soon.", "partial": true, "escalation": "Look."}`),
			agent.Turn{Answer: &agent.Answer{Text: "Soon.", Partial: true, Escalation: "Look."}},
		},
		"a partial end without an escalation": {
			toolCalls("finish", `{"text": "Soon.", "partial": true}`),
			agent.Turn{Answer: &agent.Answer{Text: "Soon.", Partial: true, Escalation: "The model marked its answer as partial. get_delivery_status: It is down."}},
		},
		"an end beside a tool call": {
			toolCalls("finish", `{"text": "Soon."}`, orders.LookupOrder, lookup),
			agent.Turn{Calls: []agent.Call{call(orders.LookupOrder, lookup)}},
		},
		"plain text": {
			text("It is on its way."),
			agent.Turn{Answer: &agent.Answer{Text: "It is on its way.", Partial: true, Escalation: "get_delivery_status: It is down."}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startFakeAPI(t, func(w http.ResponseWriter, _ *http.Request, _ int) { respond(w, tt.message) })
			turn, err := p.model("m").Next(t.Context(), conversation)
			require.NoError(t, err)
			assert.Equal(t, tt.want, turn)
			_, err = json.Marshal(turn)
			assert.NoError(t, err, "a turn is stored in the history")
		})
	}
}

func TestOpenAI_EscalatesARefusal(t *testing.T) {
	t.Parallel()
	p := startFakeAPI(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		respond(w, `{"role": "assistant", "content": null, "refusal": "No."}`)
	})
	turn, err := p.model("m").Next(t.Context(), conversation)
	require.NoError(t, err)
	require.NotNil(t, turn.Answer)
	assert.True(t, turn.Answer.Partial)
	assert.Contains(t, turn.Answer.Escalation, "The model declined to answer. ")
	assert.Contains(t, turn.Answer.Escalation, "It is down.")
}

// secret is a text of the provider that must not be stored in a history.
const secret = "sk-secret"

func TestOpenAI_ErrorTypesAndBreakerOutcomes(t *testing.T) {
	t.Parallel()
	status := func(code int, header, value, contentType string) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", contentType)
			if header != "" {
				w.Header().Set(header, value)
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, `{"error": {"message": "`+secret+`", "type": "x", "code": "y"}}`)
		}
	}
	body := func(contentType, text string) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, text)
		}
	}
	const asJSON, asHTML = "application/json", "text/html"
	for name, tt := range map[string]struct {
		answer  func(http.ResponseWriter, *http.Request, int)
		typ     string
		final   bool
		outcome breaker.Outcome
		after   time.Duration
	}{
		"bad key":       {status(401, "", "", asJSON), "Unauthorized", true, breaker.Success, 0},
		"unknown model": {status(404, "", "", asJSON), "NotFound", true, breaker.Success, 0},
		"rate limit":    {status(429, "Retry-After", "7", asJSON), "TooManyRequests", false, breaker.Ignored, 7 * time.Second},
		"rate limit, invalid Retry-After": {
			status(429, "Retry-After", "NaN", asJSON), "TooManyRequests", false, breaker.Ignored, 0,
		},
		"down":                      {status(500, "", "", asJSON), "InternalServerError", false, breaker.Failure, 0},
		"down, HTML from a gateway": {status(502, "", "", asHTML), "BadGateway", false, breaker.Failure, 0},
		"not JSON":                  {body(asJSON, secret), "BadAnswer", false, breaker.Failure, 0},
		"null":                      {body(asJSON, "null"), "BadAnswer", false, breaker.Failure, 0},
		"another type":              {body(asHTML, secret), "BadAnswer", false, breaker.Failure, 0},
		"an error with status 200":  {body(asJSON, `{"error": {"message": "`+secret+`"}}`), "BadAnswer", false, breaker.Failure, 0},
		"no choices":                {body(asJSON, `{"choices": []}`), "BadAnswer", false, breaker.Failure, 0},
		"an empty choice":           {body(asJSON, `{"choices": [{}]}`), "BadAnswer", false, breaker.Failure, 0},
		"an endless answer":         {body(asJSON, `{"choices": [{"message": `+text(strings.Repeat("x", 1<<20))+`}]}`), "BadAnswer", false, breaker.Failure, 0},
		"an end that is not JSON": {func(w http.ResponseWriter, _ *http.Request, _ int) { respond(w, toolCalls("finish", `{"text": `)) },
			"BadAnswer", false, breaker.Failure, 0},
		"an end without an answer": {func(w http.ResponseWriter, _ *http.Request, _ int) { respond(w, toolCalls("finish", `null`)) },
			"BadAnswer", false, breaker.Failure, 0},
		"connection closed": {func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) },
			"ConnectionFailed", false, breaker.Failure, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startFakeAPI(t, tt.answer)
			_, err := p.model("m").Next(t.Context(), agent.Probe())
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			assert.Equal(t, tt.typ, app.Type())
			assert.Equal(t, tt.final, app.NonRetryable())
			assert.GreaterOrEqual(t, app.NextRetryDelay(), tt.after)
			assert.LessOrEqual(t, app.NextRetryDelay(), tt.after*5/4+1)
			assert.Equal(t, tt.outcome, interceptor.Classify(t.Context(), nil, err))
			var hint interface{ RetryAfterHint() time.Duration }
			if tt.after > 0 && assert.ErrorAs(t, err, &hint) {
				assert.Equal(t, tt.after, hint.RetryAfterHint())
			}
			converted := temporal.GetDefaultFailureConverter().ErrorToFailure(err)
			assert.NotContains(t, converted.String(), secret)
			assert.NotContains(t, converted.String(), "127.0.0.1")
			assert.Len(t, p.received(), 1, "Temporal retries, the client does not")
		})
	}
}

func TestOpenAI_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		arrived := make(chan struct{})
		p := startFakeAPI(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
			close(arrived)
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if cancelled {
			ctx, cancel = context.WithCancel(t.Context())
			go func() {
				<-arrived
				cancel()
			}()
		}
		_, err := p.model("m").Next(ctx, agent.Probe())
		cancel()
		if cancelled {
			assert.Equal(t, context.Canceled, err)
			continue
		}
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		assert.Equal(t, toolcall.TypeTimeout, app.Type())
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

func TestOpenAI_UsesTheEnvironment(t *testing.T) {
	p := startFakeAPI(t, func(w http.ResponseWriter, _ *http.Request, _ int) { respond(w, text("Hello.")) })
	t.Setenv("OPENAI_BASE_URL", p.url)
	t.Setenv("OPENAI_API_KEY", "sk-environment")
	turn, err := agent.NewOpenAI("m").Next(t.Context(), agent.Probe())
	require.NoError(t, err)
	assert.Equal(t, &agent.Answer{Text: "Hello."}, turn.Answer)
	require.Len(t, p.received(), 1)
	assert.Equal(t, "Bearer sk-environment", p.received()[0].authorization)
	assert.Equal(t, []string{"finish"}, p.received()[0].toolNames(), "a probe offers no tools")
}

func TestOpenAI_DoesNotRetryARequestThatWasNotSent(t *testing.T) {
	t.Parallel()
	p := startFakeAPI(t, func(w http.ResponseWriter, _ *http.Request, _ int) { respond(w, text("Hello.")) })
	for name, model := range map[string]agent.OpenAI{
		"a model that cannot use tools": p.model(openai.GPT6Astra),
		"a base URL that is not one":    agent.NewOpenAIWithConfig("m", openai.ClientConfig{BaseURL: "http://" + secret + " :"}),
	} {
		_, err := model.Next(t.Context(), agent.Probe())
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app, name)
		assert.Equal(t, "RequestNotSent", app.Type(), name)
		assert.True(t, app.NonRetryable(), name)
		assert.NotContains(t, err.Error(), secret, name)
	}
	assert.Empty(t, p.received())
}
