package toolcall_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

func standIn() *toolcall.StandIn {
	return &toolcall.StandIn{For: tool, From: "cache", Because: toolcall.Refused, At: now, Message: "This is old:"}
}

func limit() *toolcall.RateLimit {
	l := toolcall.NewRateLimit(tool, time.Minute, now)
	return &l
}

func TestForModel_OfAFallbackHasItsMessage(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `This is old: {"tracking_id":"PKG-1","state":"in_transit"}`,
		toolcall.Result[status]{Value: inTransit, StandIn: standIn()}.ForModel())
}

func TestForModel_OfARateLimitIsItsMessage(t *testing.T) {
	t.Parallel()
	assert.Equal(t, limit().Message, toolcall.Result[status]{Limit: limit()}.ForModel())
}

// Model providers reject an empty tool message, and a model may misread one.
func TestForModel_IsNeverEmpty(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]interface {
		ForModel() string
		JSONForModel() json.RawMessage
	}{
		"zero":                            toolcall.Result[any]{},
		"no JSON":                         toolcall.Value(json.RawMessage(nil)),
		"empty JSON":                      toolcall.Value(json.RawMessage{}),
		"broken JSON":                     toolcall.Value(json.RawMessage(`{`)),
		"cannot be encoded":               toolcall.Value(func() {}),
		"empty text":                      toolcall.Value(""),
		"refusal without a message":       toolcall.Result[any]{Unavailable: &toolcall.Unavailable{}},
		"limit without a message":         toolcall.Result[any]{Limit: &toolcall.RateLimit{}},
		"failure without a message":       toolcall.Result[any]{Error: &toolcall.ToolError{Type: "NotFound"}},
		"stand-in without a message":      toolcall.Result[any]{StandIn: &toolcall.StandIn{}},
		"stand-in that cannot be encoded": toolcall.Result[any]{Value: func() {}, StandIn: standIn()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.NotEmpty(t, result.ForModel())
			assert.True(t, json.Valid(result.JSONForModel()), "%s", result.JSONForModel())
		})
	}
}

func TestJSONForModel_IsTheValueOrAnInstruction(t *testing.T) {
	t.Parallel()
	u := *unavailable()
	u.Message, u.Alternatives = "Do without.", []string{"us-east"}
	l := *limit()
	l.Message = "Later."
	for name, c := range map[string]struct {
		result toolcall.Result[status]
		want   string
	}{
		"value": {toolcall.Value(inTransit), `{"tracking_id":"PKG-1","state":"in_transit"}`},
		"stand-in": {
			toolcall.Result[status]{Value: inTransit, StandIn: standIn()},
			`{"status":"degraded","message":"This is old:","value":{"tracking_id":"PKG-1","state":"in_transit"}}`,
		},
		"refusal": {
			toolcall.Result[status]{Unavailable: &u},
			`{"status":"unavailable","message":"Do without.","dependency":"carrier-api","region":"eu-west","retry_after_seconds":30,"alternatives":["us-east"]}`,
		},
		"rate limit": {toolcall.Result[status]{Limit: &l}, `{"status":"rate_limited","message":"Later."}`},
		"failure": {
			toolcall.Result[status]{Error: toolError()},
			`{"status":"error","message":"get_delivery_status did not answer in time.","type":"Timeout"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.JSONEq(t, c.want, string(c.result.JSONForModel()))
		})
	}
}

// The zero value is an answer.
func TestJSONForModel_KeepsAZeroValue(t *testing.T) {
	t.Parallel()
	assert.JSONEq(t, `{"status":"degraded","message":"This is old:","value":0}`,
		string(toolcall.Result[int]{StandIn: standIn()}.JSONForModel()))
}

func TestJSONForModel_OfAValueThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	for status, result := range map[string]toolcall.Result[chan int]{
		"error":    toolcall.Value(make(chan int)),
		"degraded": {Value: make(chan int), StandIn: standIn()},
	} {
		var object map[string]any
		require.NoError(t, json.Unmarshal(result.JSONForModel(), &object))
		assert.Equal(t, status, object["status"])
		assert.Contains(t, object["message"], "cannot be shown")
		assert.NotContains(t, object, "value")
	}
}
