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

// provider is a stand-in for the API of chat completions.
type provider struct {
	url string

	mu   sync.Mutex
	asks []ask
}

// ask is a request as the API reads it.
type ask struct {
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

func (a ask) toolNames() (names []string) {
	for _, tool := range a.Tools {
		names = append(names, tool.Function.Name)
	}
	return names
}

// provide serves the API until the test ends.
func provide(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int)) *provider {
	t.Helper()
	p := &provider{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !assert.Equal(t, "POST /v1/chat/completions", r.Method+" "+r.URL.Path) {
			http.NotFound(w, r)
			return
		}
		a := ask{authorization: r.Header.Get("Authorization")}
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&a))
		p.mu.Lock()
		p.asks = append(p.asks, a)
		n := len(p.asks)
		p.mu.Unlock()
		answer(w, r, n)
	}))
	t.Cleanup(server.Close)
	p.url = server.URL + "/v1"
	return p
}

func (p *provider) model(name string) agent.OpenAI {
	config := openai.DefaultConfig("sk-test")
	config.BaseURL = p.url
	return agent.NewOpenAIWithConfig(name, config)
}

func (p *provider) asked() []ask {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]ask(nil), p.asks...)
}

// says writes a completion whose message is this JSON.
func says(w http.ResponseWriter, message string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
		"choices": [{"index": 0, "finish_reason": "stop", "message": `+message+`}]}`)
}

// calls is a message that calls tools, given as name and arguments in turn.
func calls(namesAndArguments ...string) string {
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
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(text)
}

func plain(text string) string {
	encoded, _ := json.Marshal(text)
	return `{"role": "assistant", "content": ` + string(encoded) + `}`
}

const lookup, parcel = `{"order_id": "EU-1"}`, `{"tracking_id": "PKG-1", "region": "eu-west"}`

// refused is a conversation in which the carrier is down.
var refused = agent.Conversation{
	Ticket: agent.Ticket{OrderID: "EU-1", Question: "Where is my parcel?", Return: true},
	Tools:  []string{orders.LookupOrder},
	Transcript: []agent.Message{
		{Call: agent.Call{Tool: orders.LookupOrder, Args: json.RawMessage(lookup)}, Text: `{"id":"EU-1"}`, Outcome: "value"},
		{Call: agent.Call{Tool: "no such tool!"}, Text: "There is no tool.", Outcome: "error"},
		{Call: agent.Call{Tool: carriertools.GetDeliveryStatus, Args: json.RawMessage(parcel)}, Text: "It is down.", Outcome: "unavailable"},
	},
}

func TestOpenAI_SendsTheConversationAndTheToolsOnOffer(t *testing.T) {
	t.Parallel()
	p := provide(t, func(w http.ResponseWriter, _ *http.Request, _ int) { says(w, plain("Hello.")) })
	_, err := p.model("some/model").Next(t.Context(), refused)
	require.NoError(t, err)
	require.Len(t, p.asked(), 1)
	a := p.asked()[0]
	assert.Equal(t, "some/model", a.Model)
	assert.Equal(t, "Bearer sk-test", a.authorization)
	assert.ElementsMatch(t, []string{"finish", orders.LookupOrder}, a.toolNames(), "what is down is not offered")

	require.Len(t, a.Messages, 2+2*len(refused.Transcript))
	assert.Equal(t, "system", a.Messages[0].Role)
	assert.Equal(t, "user", a.Messages[1].Role)
	for _, word := range []string{"EU-1", "Where is my parcel?", "return label"} {
		assert.Contains(t, a.Messages[1].Content, word)
	}
	ids := map[string]bool{}
	for i, said := range refused.Transcript {
		call, answer := a.Messages[2+2*i], a.Messages[3+2*i]
		assert.Equal(t, "assistant", call.Role)
		require.Len(t, call.ToolCalls, 1)
		assert.Equal(t, "tool", answer.Role)
		assert.Equal(t, said.Text, answer.Content)
		assert.Equal(t, call.ToolCalls[0].ID, answer.ToolCallID)
		assert.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, call.ToolCalls[0].Function.Name)
		assert.True(t, json.Valid([]byte(call.ToolCalls[0].Function.Arguments)))
		ids[answer.ToolCallID] = true
	}
	assert.Len(t, ids, len(refused.Transcript), "each call has an ID of its own")
}

func TestOpenAI_DescribesEveryTool(t *testing.T) {
	t.Parallel()
	p := provide(t, func(w http.ResponseWriter, _ *http.Request, _ int) { says(w, plain("Hello.")) })
	_, err := p.model("m").Next(t.Context(), agent.Conversation{Tools: agent.Tools()})
	require.NoError(t, err)
	a := p.asked()[0]
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

func TestOpenAI_ReadsWhatTheModelWants(t *testing.T) {
	t.Parallel()
	call := func(tool, args string) agent.Call { return agent.Call{Tool: tool, Args: json.RawMessage(args)} }
	for name, tt := range map[string]struct {
		message string
		want    agent.Turn
	}{
		"a tool": {calls(orders.LookupOrder, lookup), agent.Turn{Calls: []agent.Call{call(orders.LookupOrder, lookup)}}},
		"several tools": {
			calls(carriertools.GetDeliveryStatus, parcel, carriertools.GetTrackingEvents, parcel),
			agent.Turn{Calls: []agent.Call{call(carriertools.GetDeliveryStatus, parcel), call(carriertools.GetTrackingEvents, parcel)}},
		},
		"an invented tool":             {calls("fly", `{"to": "moon"}`), agent.Turn{Calls: []agent.Call{call("fly", `{"to": "moon"}`)}}},
		"no arguments":                 {calls(orders.LookupOrder, ""), agent.Turn{Calls: []agent.Call{{Tool: orders.LookupOrder}}}},
		"arguments that are no JSON":   {calls(orders.LookupOrder, `{"order_id": "EU-`), agent.Turn{Calls: []agent.Call{{Tool: orders.LookupOrder}}}},
		"arguments of another type":    {calls(orders.LookupOrder, `{"order_id": 1}`), agent.Turn{Calls: []agent.Call{{Tool: orders.LookupOrder}}}},
		"arguments that are no object": {calls(orders.LookupOrder, `null`), agent.Turn{Calls: []agent.Call{{Tool: orders.LookupOrder}}}},
		"the end":                      {calls("finish", `{"text": "Soon."}`), agent.Turn{Answer: &agent.Answer{Text: "Soon."}}},
		"a partial end": {
			calls("finish", `{"text": "Soon.", "partial": true, "escalation": "Look."}`),
			agent.Turn{Answer: &agent.Answer{Text: "Soon.", Partial: true, Escalation: "Look."}},
		},
		"a partial end that nobody is told of": {
			calls("finish", `{"text": "Soon.", "partial": true}`),
			agent.Turn{Answer: &agent.Answer{Text: "Soon.", Partial: true, Escalation: "The model calls its answer partial. get_delivery_status: It is down."}},
		},
		"an end before it has read": {
			calls("finish", `{"text": "Soon."}`, orders.LookupOrder, lookup),
			agent.Turn{Calls: []agent.Call{call(orders.LookupOrder, lookup)}},
		},
		"plain text": {
			plain("It is on its way."),
			agent.Turn{Answer: &agent.Answer{Text: "It is on its way.", Partial: true, Escalation: "get_delivery_status: It is down."}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := provide(t, func(w http.ResponseWriter, _ *http.Request, _ int) { says(w, tt.message) })
			turn, err := p.model("m").Next(t.Context(), refused)
			require.NoError(t, err)
			assert.Equal(t, tt.want, turn)
			_, err = json.Marshal(turn)
			assert.NoError(t, err, "a turn goes through a history")
		})
	}
}

func TestOpenAI_AModelThatDeclinesIsEscalated(t *testing.T) {
	t.Parallel()
	p := provide(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		says(w, `{"role": "assistant", "content": null, "refusal": "No."}`)
	})
	turn, err := p.model("m").Next(t.Context(), refused)
	require.NoError(t, err)
	require.NotNil(t, turn.Answer)
	assert.True(t, turn.Answer.Partial)
	assert.Contains(t, turn.Answer.Escalation, "The model declined to answer. ")
	assert.Contains(t, turn.Answer.Escalation, "It is down.")
}

// secret is what a provider writes and no history may hold.
const secret = "sk-secret"

func TestOpenAI_ErrorsAreWhatTheBreakerReads(t *testing.T) {
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
		"rate limit, nonsense": {
			status(429, "Retry-After", "NaN", asJSON), "TooManyRequests", false, breaker.Ignored, 0,
		},
		"down":                    {status(500, "", "", asJSON), "InternalServerError", false, breaker.Failure, 0},
		"down, a gateway answers": {status(502, "", "", asHTML), "BadGateway", false, breaker.Failure, 0},
		"no JSON":                 {body(asJSON, secret), "BadAnswer", false, breaker.Failure, 0},
		"null":                    {body(asJSON, "null"), "BadAnswer", false, breaker.Failure, 0},
		"another type":            {body(asHTML, secret), "BadAnswer", false, breaker.Failure, 0},
		"an error in disguise":    {body(asJSON, `{"error": {"message": "`+secret+`"}}`), "BadAnswer", false, breaker.Failure, 0},
		"no choices":              {body(asJSON, `{"choices": []}`), "BadAnswer", false, breaker.Failure, 0},
		"an empty choice":         {body(asJSON, `{"choices": [{}]}`), "BadAnswer", false, breaker.Failure, 0},
		"an endless answer":       {body(asJSON, `{"choices": [{"message": `+plain(strings.Repeat("x", 1<<20))+`}]}`), "BadAnswer", false, breaker.Failure, 0},
		"an unreadable end": {func(w http.ResponseWriter, _ *http.Request, _ int) { says(w, calls("finish", `{"text": `)) },
			"BadAnswer", false, breaker.Failure, 0},
		"an end without an answer": {func(w http.ResponseWriter, _ *http.Request, _ int) { says(w, calls("finish", `null`)) },
			"BadAnswer", false, breaker.Failure, 0},
		"hangs up": {func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) },
			"ConnectionFailed", false, breaker.Failure, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := provide(t, tt.answer)
			_, err := p.model("m").Next(t.Context(), agent.Probe())
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			assert.Equal(t, tt.typ, app.Type())
			assert.Equal(t, tt.final, app.NonRetryable())
			assert.GreaterOrEqual(t, app.NextRetryDelay(), tt.after)
			assert.LessOrEqual(t, app.NextRetryDelay(), tt.after*5/4+1)
			assert.Equal(t, tt.outcome, interceptor.Classify(t.Context(), nil, err))
			var asked interface{ RetryAfterHint() time.Duration }
			if tt.after > 0 && assert.ErrorAs(t, err, &asked) {
				assert.Equal(t, tt.after, asked.RetryAfterHint())
			}
			converted := temporal.GetDefaultFailureConverter().ErrorToFailure(err)
			assert.NotContains(t, converted.String(), secret)
			assert.NotContains(t, converted.String(), "127.0.0.1")
			assert.Len(t, p.asked(), 1, "Temporal retries, the SDK does not")
		})
	}
}

func TestOpenAI_HasTheTimeOfItsActivity(t *testing.T) {
	t.Parallel()
	for _, cancelled := range []bool{false, true} {
		arrived := make(chan struct{})
		p := provide(t, func(_ http.ResponseWriter, r *http.Request, _ int) {
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

func TestOpenAI_GoesWhereTheEnvironmentSays(t *testing.T) {
	p := provide(t, func(w http.ResponseWriter, _ *http.Request, _ int) { says(w, plain("Hello.")) })
	t.Setenv("OPENAI_BASE_URL", p.url)
	t.Setenv("OPENAI_API_KEY", "sk-environment")
	turn, err := agent.NewOpenAI("m").Next(t.Context(), agent.Probe())
	require.NoError(t, err)
	assert.Equal(t, &agent.Answer{Text: "Hello."}, turn.Answer)
	require.Len(t, p.asked(), 1)
	assert.Equal(t, "Bearer sk-environment", p.asked()[0].authorization)
	assert.Equal(t, []string{"finish"}, p.asked()[0].toolNames(), "a probe can call no tool")
}

func TestOpenAI_ARequestThatTheClientRefusesIsNotRetried(t *testing.T) {
	t.Parallel()
	p := provide(t, func(w http.ResponseWriter, _ *http.Request, _ int) { says(w, plain("Hello.")) })
	for name, model := range map[string]agent.OpenAI{
		"a model without tools":      p.model(openai.GPT6Astra),
		"a base URL that is not one": agent.NewOpenAIWithConfig("m", openai.ClientConfig{BaseURL: "http://" + secret + " :"}),
	} {
		_, err := model.Next(t.Context(), agent.Probe())
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app, name)
		assert.Equal(t, "RequestNotSent", app.Type(), name)
		assert.True(t, app.NonRetryable(), name)
		assert.NotContains(t, err.Error(), secret, name)
	}
	assert.Empty(t, p.asked())
}
