package carrier_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

// curl sends a request as curl -X method -d body url would.
func curl(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

func TestAdmin_AcceptsQueryFormAndJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, query, body string
		want                carrier.Fault
	}{
		{"POST", "?kind=flaky&share=0.3", "", carrier.Fault{Kind: carrier.Flaky, Share: 0.3}},
		{"PUT", "?kind=hang", "", carrier.Fault{Kind: carrier.Hang}},
		{"POST", "", "kind=slow", carrier.Fault{Kind: carrier.Slow}},
		{"POST", "", `{"kind":"rate-limited"}`, carrier.Fault{Kind: carrier.RateLimited}},
		{"PUT", "", ` {"kind":"flaky","share":1} `, carrier.Fault{Kind: carrier.Flaky, Share: 1}},
		{"PUT", "", `{"kind":"flaky","share":0}`, carrier.Fault{Kind: carrier.Flaky}},
		{"POST", "?kind=healthy", "", carrier.Fault{Kind: carrier.Healthy}},
	} {
		s := start(t, carrier.Options{})
		status, body := curl(t, tt.method, s.URL()+"/admin/us-east/fault"+tt.query, tt.body)
		require.Equal(t, http.StatusOK, status, body)
		assert.Equal(t, tt.want, s.State().Regions[carrier.USEast].Fault)
		assert.Equal(t, carrier.Healthy, s.State().Regions[carrier.EUWest].Fault.Kind)

		var shown carrier.RegionState
		require.NoError(t, json.Unmarshal([]byte(body), &shown))
		assert.Equal(t, tt.want, shown.Fault, "the answer shows the new fault")
	}
}

func TestAdmin_InvalidRequests(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{})
	for _, tt := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/admin/mars-1/fault?kind=hang", "", 404, `unknown region \"mars-1\": use eu-west or us-east`},
		{"/admin/eu-west/fault?kind=tired", "", 400, `unknown fault kind \"tired\": use healthy, hang`},
		{"/admin/eu-west/fault", "", 400, `kind is missing: use healthy, hang`},
		{"/admin/eu-west/fault?kind=flaky", "", 400, `\"flaky\" needs a share from 0 to 1`},
		{"/admin/eu-west/fault?kind=flaky&share=2", "", 400, `share must be a number from 0 to 1, got 2`},
		{"/admin/eu-west/fault?kind=flaky&share=NaN", "", 400, `share must be a number from 0 to 1, got NaN`},
		{"/admin/eu-west/fault?kind=flaky&share=some", "", 400, `share must be a number from 0 to 1, got \"some\"`},
		{"/admin/eu-west/fault?kind=hang&share=0.5", "", 400, `share is only valid for fault kind \"flaky\"`},
		{"/admin/eu-west/fault?kind=hang&how=much", "", 400, `unknown field \"how\": use kind or share`},
		{"/admin/eu-west/fault?kind=%zz", "", 400, `kind=flaky`},
		{"/admin/eu-west/fault?kind=hang", "kind=slow", 400, `send only one`},
		{"/admin/eu-west/fault", `{"kind":"hang","for":"ever"}`, 400, `the body must be like`},
		{"/admin/eu-west/fault", `{"kind":`, 400, `the body must be like`},
		{"/admin/eu-west/fault", strings.Repeat("x", 1<<17), 400, `could not be read`},
		{"/mars-1/status/PKG-1", "", 404, `unknown region \"mars-1\": use eu-west or us-east`},
		{"/eu-west/parcels", "", 404, `no such endpoint: use GET /{region}/status/{trackingID}`},
		{"/", "", 404, `no such endpoint`},
		{"/admin", "", 404, `no such endpoint`},
	} {
		status, body := curl(t, http.MethodPost, s.URL()+tt.path, tt.body)
		assert.Equal(t, tt.status, status, tt.path)
		assert.Contains(t, body, tt.want, tt.path)
	}
	assert.Equal(t, carrier.Healthy, s.State().Regions[carrier.EUWest].Fault.Kind)
	assert.Empty(t, s.Calls(), "admin requests and unknown paths are not recorded")
}

func TestAdmin_ShowsStateAndResetsCounts(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Speed: fast})
	require.NoError(t, s.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Error}))
	assert.Error(t, status(t, client(t, s), carrier.EUWest))

	code, body := curl(t, http.MethodGet, s.URL()+"/admin", "")
	assert.Equal(t, http.StatusOK, code)
	assert.JSONEq(t, `{
		"speed": 1000,
		"regions": {
			"eu-west": {"fault": {"kind": "error"}, "calls": {"customer": 1}, "answers": {"503": 1}, "in_flight": 0},
			"us-east": {"fault": {"kind": "healthy"}, "calls": {}, "answers": {}, "in_flight": 0}
		},
		"orders": {"calls": {}, "answers": {}, "in_flight": 0}
	}`, body)

	code, body = curl(t, http.MethodPost, s.URL()+"/admin/reset", "")
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, body, `"kind": "error"`, "a reset keeps the faults")
	assert.Empty(t, s.Calls())
	assert.Empty(t, s.State().Regions[carrier.EUWest].Calls)
}

func TestLabels_InvalidBody(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Speed: fast})
	for _, body := range []string{"", "{}", "nonsense", strings.Repeat("x", 1<<17)} {
		status, answer := curl(t, http.MethodPost, s.URL()+"/eu-west/labels", body)
		assert.Equal(t, http.StatusBadRequest, status)
		assert.Contains(t, answer, "the body")
	}
	assert.Len(t, s.Calls(), 4, "invalid calls are recorded")
}
