package toolcall_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

// status is what the tool of these tests answers.
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

func TestResult_SurvivesItsJSON(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]toolcall.Result[status]{
		"value":      toolcall.Value(status{TrackingID: "PKG-1", State: "in_transit"}),
		"zero value": {},
		"refusal":    {Unavailable: unavailable()},
		"failure":    {Error: toolError()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := json.Marshal(result)
			require.NoError(t, err)
			// Whatever was there before is gone: a refusal does not keep a value.
			read := toolcall.Result[status]{Value: status{State: "stale"}, Unavailable: unavailable(), Error: toolError()}
			require.NoError(t, json.Unmarshal(data, &read))
			assert.Equal(t, result, read)
			assert.Equal(t, result.Outcome(), read.Outcome())
		})
	}
}

// The form is read by other languages and by people in the Temporal UI.
func TestResult_HasTheDocumentedForm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result any
		form   string
	}{
		"value":       {toolcall.Value(status{TrackingID: "PKG-1", State: "lost"}), `{"toolbreaker":"value","value":{"tracking_id":"PKG-1","state":"lost"}}`},
		"null value":  {toolcall.Value[*status](nil), `{"toolbreaker":"value","value":null}`},
		"empty value": {toolcall.Value(""), `{"toolbreaker":"value","value":""}`},
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

// Read as an answer, anything else would be an empty one, and the model would
// believe it.
func TestResult_RefusesToReadAnythingElse(t *testing.T) {
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
		"not JSON":                `{"toolbreaker":"value"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var read toolcall.Result[status]
			assert.Error(t, json.Unmarshal([]byte(data), &read))
		})
	}
}

func TestResult_OfAValueThatCannotBeEncodedSaysSo(t *testing.T) {
	t.Parallel()
	result := toolcall.Value(make(chan int))
	_, err := json.Marshal(result)
	assert.Error(t, err)
	assert.Contains(t, result.ForModel(), "cannot be shown")
}

func TestOutcome_OneOfThree(t *testing.T) {
	t.Parallel()
	assert.Equal(t, toolcall.OK, toolcall.Value(1).Outcome())
	assert.Equal(t, toolcall.OK, toolcall.Result[int]{}.Outcome(), "the zero Result is a value")
	assert.Equal(t, toolcall.Refused, toolcall.Result[int]{Unavailable: unavailable()}.Outcome())
	assert.Equal(t, toolcall.Failed, toolcall.Result[int]{Error: toolError()}.Outcome())
}

// An interceptor tells by this method which activities take a refusal as a
// value, whatever their T, and also behind a pointer or inside a larger struct.
func TestIsToolResult_MarksEveryResultAndNothingElse(t *testing.T) {
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
