package toolcall_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// status is the result type of the tools of these tests.
type status struct {
	TrackingID string `json:"tracking_id"`
	State      string `json:"state"`
}

func unavailable() *toolcall.Unavailable {
	u := toolcall.NewUnavailable(toolcall.About{Tool: "get_delivery_status"}, refusal(), now)
	return &u
}

func toolError() *toolcall.ToolError {
	return &toolcall.ToolError{Type: "Timeout", Tool: "get_delivery_status", Message: "get_delivery_status did not answer in time."}
}

func TestResult_RoundTripsThroughJSON(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]toolcall.Result[status]{
		"value":      toolcall.Value(status{TrackingID: "PKG-1", State: "in_transit"}),
		"zero value": {},
		"refusal":    {Unavailable: unavailable()},
		"failure":    {Error: toolError()},
		"stand-in":   {Value: inTransit, StandIn: standIn()},
		"rate limit": {Limit: limit()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := json.Marshal(result)
			require.NoError(t, err)
			// Decoding replaces what the variable held before.
			read := toolcall.Result[status]{
				Value: status{State: "stale"}, StandIn: standIn(), Unavailable: unavailable(), Limit: limit(), Error: toolError(),
			}
			require.NoError(t, json.Unmarshal(data, &read))
			assert.Equal(t, result, read)
			assert.Equal(t, result.Outcome(), read.Outcome())
		})
	}
}

// Workflows in other languages depend on this form.
func TestResult_HasTheDocumentedForm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result any
		form   string
	}{
		"value":       {toolcall.Value(status{TrackingID: "PKG-1", State: "lost"}), `{"toolbreaker":"value","value":{"tracking_id":"PKG-1","state":"lost"}}`},
		"null value":  {toolcall.Value[*status](nil), `{"toolbreaker":"value","value":null}`},
		"empty value": {toolcall.Value(""), `{"toolbreaker":"value","value":""}`},
		"stand-in": {
			toolcall.Result[status]{Value: inTransit, StandIn: standIn()},
			`{"toolbreaker":"degraded","value":{"tracking_id":"PKG-1","state":"in_transit"},
			  "stand_in":{"for":"get_delivery_status","from":"cache","because":"unavailable","at":"2026-03-01T14:00:00Z","message":"This is old:"}}`,
		},
		"stand-in without a time": {
			toolcall.Result[int]{StandIn: &toolcall.StandIn{For: tool, From: "other", Because: toolcall.RateLimited, Message: "From other:"}},
			`{"toolbreaker":"degraded","value":0,
			  "stand_in":{"for":"get_delivery_status","from":"other","because":"rate_limited","message":"From other:"}}`,
		},
		"refusal": {
			toolcall.Result[status]{Unavailable: unavailable()},
			`{"toolbreaker":"unavailable","unavailable":{
			  "code":"dependency_unavailable","dependency":"carrier-api","region":"eu-west","region_from":"worker","tool":"get_delivery_status",
			  "message":"carrier-api (eu-west) is temporarily unavailable; get_delivery_status was not executed. Do not call it again before 14:00:30 UTC (in 30 s). Proceed without this information if you can, or escalate with what you have.",
			  "retry_after_seconds":30,"retry_at":"2026-03-01T14:00:30Z","since":"2026-03-01T13:59:50Z",
			  "rule":"failure_rate","reason":"12 of 20 calls failed in 10s (over 50%)","outage":"outage/carrier-api/eu-west"}}`,
		},
		"refusal with all fields": {
			toolcall.Result[status]{Unavailable: &toolcall.Unavailable{
				Code: toolcall.CodeUnavailable, Dependency: "carrier-api", Region: "eu-west", RegionFrom: toolcall.RegionFromInput,
				Tool: tool, Tools: []string{tool, sibling}, Message: "Do without.", Worded: true,
				RetryAfterSeconds: 30, RetryAt: now, Since: now, Rule: breaker.RuleForced, Reason: "forced by kim: maintenance",
				Required: true, Alternatives: []string{"us-east"}, Refusals: 2,
			}},
			`{"toolbreaker":"unavailable","unavailable":{
			  "code":"dependency_unavailable","dependency":"carrier-api","region":"eu-west","region_from":"input",
			  "tool":"get_delivery_status","tools":["get_delivery_status","get_shipping_label"],"message":"Do without.","worded":true,
			  "retry_after_seconds":30,"retry_at":"2026-03-01T14:00:00Z","since":"2026-03-01T14:00:00Z",
			  "rule":"forced","reason":"forced by kim: maintenance","required":true,"alternatives":["us-east"],"refusals":2}}`,
		},
		"rate limit": {
			toolcall.Result[status]{Limit: limit()},
			`{"toolbreaker":"rate_limited","limit":{"tool":"get_delivery_status","retry_at":"2026-03-01T14:01:00Z",
			  "message":"get_delivery_status is rate-limited: its dependency works and asks for fewer calls. Call it again after 14:01:00 UTC, or proceed without this information."}}`,
		},
		"rate limit without a time": {
			toolcall.Result[status]{Limit: &toolcall.RateLimit{Tool: tool, Message: "Later."}},
			`{"toolbreaker":"rate_limited","limit":{"tool":"get_delivery_status","message":"Later."}}`,
		},
		"failure": {
			toolcall.Result[status]{Error: toolError()},
			`{"toolbreaker":"error","error":{"type":"Timeout","tool":"get_delivery_status","message":"get_delivery_status did not answer in time."}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := json.Marshal(c.result)
			require.NoError(t, err)
			assert.JSONEq(t, c.form, string(data))
		})
	}
}

func TestResult_ReadsNullAsAValue(t *testing.T) {
	t.Parallel()
	var read toolcall.Result[*status]
	require.NoError(t, json.Unmarshal([]byte(`{"toolbreaker":"value","value":null}`), &read))
	assert.Equal(t, toolcall.OK, read.Outcome())
	assert.Nil(t, read.Value)
}

// Accepting anything else would give an empty answer, and the model would believe
// it.
func TestResult_RejectsAnyOtherJSON(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"plain value":             `{"tracking_id":"PKG-1","state":"lost"}`,
		"empty object":            `{}`,
		"null":                    `null`,
		"text":                    `"value"`,
		"list":                    `[]`,
		"unknown outcome":         `{"toolbreaker":"parked","value":{}}`,
		"outcome of another kind": `{"toolbreaker":1}`,
		"value missing":           `{"toolbreaker":"value"}`,
		"value of another kind":   `{"toolbreaker":"value","value":"lost"}`,
		"refusal missing":         `{"toolbreaker":"unavailable","value":{"state":"lost"}}`,
		"refusal null":            `{"toolbreaker":"unavailable","unavailable":null}`,
		"failure missing":         `{"toolbreaker":"error"}`,
		"limit missing":           `{"toolbreaker":"rate_limited"}`,
		"stand-in missing":        `{"toolbreaker":"degraded","value":{"state":"lost"}}`,
		"stand-in of no value":    `{"toolbreaker":"degraded","stand_in":{"from":"cache"}}`,
		"not JSON":                `{"toolbreaker":"value"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var read toolcall.Result[status]
			assert.Error(t, json.Unmarshal([]byte(data), &read))
		})
	}
}

func TestResult_OfAValueThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	result := toolcall.Value(make(chan int))
	_, err := json.Marshal(result)
	assert.Error(t, err)
	assert.Contains(t, result.ForModel(), "cannot be shown")
}

func TestOutcome_IsOneOfFive(t *testing.T) {
	t.Parallel()
	assert.Equal(t, toolcall.OK, toolcall.Value(1).Outcome())
	assert.Equal(t, toolcall.OK, toolcall.Result[int]{}.Outcome(), "the zero Result is a value")
	assert.Equal(t, toolcall.Refused, toolcall.Result[int]{Unavailable: unavailable()}.Outcome())
	assert.Equal(t, toolcall.Failed, toolcall.Result[int]{Error: toolError()}.Outcome())
	assert.Equal(t, toolcall.Degraded, toolcall.Result[int]{StandIn: standIn()}.Outcome())
	assert.Equal(t, toolcall.RateLimited, toolcall.Result[int]{Limit: limit()}.Outcome())
}

// A workflow in another SDK reads a refusal with only the JSON converter that all
// SDKs share.
func TestRefusal_CanBeReadWithoutThisPackage(t *testing.T) {
	t.Parallel()
	read := func(value any) (plain map[string]any) {
		t.Helper()
		payload, err := converter.GetDefaultDataConverter().ToPayload(value)
		require.NoError(t, err)
		require.Equal(t, "json/plain", string(payload.GetMetadata()["encoding"]))
		require.NoError(t, converter.NewJSONPayloadConverter().FromPayload(payload, &plain))
		return plain
	}
	isRefusal := func(u map[string]any) {
		t.Helper()
		assert.Equal(t, "dependency_unavailable", u["code"])
		assert.Equal(t, "carrier-api", u["dependency"])
		assert.Equal(t, "eu-west", u["region"])
		assert.Equal(t, "get_delivery_status", u["tool"])
		assert.Equal(t, "2026-03-01T14:00:30Z", u["retry_at"])
		assert.EqualValues(t, 30, u["retry_after_seconds"])
		assert.Contains(t, u["message"], "get_delivery_status was not executed")
	}

	asValue := read(toolcall.Result[json.RawMessage]{Unavailable: unavailable()})
	assert.Equal(t, "unavailable", asValue["toolbreaker"])
	isRefusal(asValue["unavailable"].(map[string]any))

	failure := temporal.GetDefaultFailureConverter().ErrorToFailure(refusedWith(*unavailable()))
	assert.Equal(t, "DependencyUnavailable", failure.GetApplicationFailureInfo().GetType())
	assert.True(t, failure.GetApplicationFailureInfo().GetNonRetryable())
	details := failure.GetApplicationFailureInfo().GetDetails().GetPayloads()
	require.Len(t, details, 1)
	var plain map[string]any
	require.NoError(t, converter.NewJSONPayloadConverter().FromPayload(details[0], &plain))
	isRefusal(plain)
}

// By this method an interceptor finds the activities that can return a refusal as
// a value, for any T, behind a pointer, or inside a larger struct.
func TestIsToolResult_MarksResultsOnly(t *testing.T) {
	t.Parallel()
	type larger struct {
		toolcall.Result[status]
		Note string
	}
	marker := reflect.TypeFor[interface{ IsToolResult() }]()
	for name, c := range map[string]struct {
		of   reflect.Type
		want bool
	}{
		"of a struct":  {reflect.TypeFor[toolcall.Result[status]](), true},
		"of anything":  {reflect.TypeFor[toolcall.Result[any]](), true},
		"pointer":      {reflect.TypeFor[*toolcall.Result[status]](), true},
		"embedded":     {reflect.TypeFor[larger](), true},
		"plain struct": {reflect.TypeFor[status](), false},
		"refusal":      {reflect.TypeFor[toolcall.Unavailable](), false},
		"failure":      {reflect.TypeFor[toolcall.ToolError](), false},
	} {
		assert.Equal(t, c.want, c.of.Implements(marker), name)
	}
}

func TestForModel_OfAValueIsItsJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC)
	assert.Equal(t, `{"tracking_id":"PKG-1","state":"lost"}`, toolcall.Value(status{TrackingID: "PKG-1", State: "lost"}).ForModel())
	assert.Equal(t, `"2026-03-01T14:00:00Z"`, toolcall.Value(at).ForModel())
	assert.Equal(t, `{"any":["form"]}`, toolcall.Value(json.RawMessage(`{"any":["form"]}`)).ForModel())
	assert.Equal(t, `null`, toolcall.Value[*status](nil).ForModel())
}

func TestForModel_OfAFailureIsItsMessage(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "get_delivery_status did not answer in time.", toolcall.Result[status]{Error: toolError()}.ForModel())
}
