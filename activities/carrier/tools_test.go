package carrier_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/activities/carrier"
)

// serve starts a server with this handler. It returns tools that call it and an
// environment in which they are registered.
func serve(t *testing.T, handler http.HandlerFunc) (*carrier.Tools, *testsuite.TestActivityEnvironment) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	tools := &carrier.Tools{BaseURL: server.URL, HTTP: server.Client()}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	tools.Register(env)
	return tools, env
}

var query = carrier.Query{TrackingID: "PKG-1", Region: carrier.RegionEUWest}

func TestTools_AreRegisteredUnderTheirNames(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC)
	_, env := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /eu-west/status/PKG-1":
			_, _ = io.WriteString(w, `{"tracking_id": "PKG-1", "state": "in_transit", "eta": "2026-03-01T14:00:00Z",
				"last_location": "depot", "updated_at": "2026-03-01T14:00:00Z"}`)
		case "GET /eu-west/events/PKG-1":
			_, _ = io.WriteString(w, `{"tracking_id": "PKG-1", "events":
				[{"at": "2026-03-01T14:00:00Z", "state": "accepted", "location": "shop"}]}`)
		case "POST /eu-west/labels":
			body, _ := io.ReadAll(r.Body)
			assert.JSONEq(t, `{"tracking_id": "PKG-1"}`, string(body))
			_, _ = io.WriteString(w, `{"id": "LBL-1", "tracking_id": "PKG-1", "url": "https://carrier.example/1"}`)
		default:
			http.NotFound(w, r)
		}
	})

	value, err := env.ExecuteActivity("get_delivery_status", query)
	require.NoError(t, err)
	var status carrier.Status
	require.NoError(t, value.Get(&status))
	assert.Equal(t, carrier.Status{TrackingID: "PKG-1", State: "in_transit", ETA: at, LastLocation: "depot", UpdatedAt: at}, status)

	value, err = env.ExecuteActivity("get_tracking_events", query)
	require.NoError(t, err)
	var events carrier.Events
	require.NoError(t, value.Get(&events))
	assert.Equal(t, carrier.Events{TrackingID: "PKG-1", Events: []carrier.Event{{At: at, State: "accepted", Location: "shop"}}}, events)

	value, err = env.ExecuteActivity("create_return_label", query)
	require.NoError(t, err)
	var label carrier.Label
	require.NoError(t, value.Get(&label))
	assert.Equal(t, carrier.Label{ID: "LBL-1", TrackingID: "PKG-1", URL: "https://carrier.example/1"}, label)
}

func TestTools_ErrorsKeepTheirTypeThroughTemporal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		typ    string
		final  bool
		delay  time.Duration
	}{
		{404, "NotFound", true, 0},
		{429, "TooManyRequests", false, 5 * time.Second},
		{503, "ServiceUnavailable", false, 0},
	} {
		_, env := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if tt.delay > 0 {
				w.Header().Set("Retry-After", "5")
			}
			w.WriteHeader(tt.status)
		})
		_, err := env.ExecuteActivity(carrier.GetDeliveryStatus, query)
		var appErr *temporal.ApplicationError
		require.ErrorAs(t, err, &appErr)
		assert.Equal(t, tt.typ, appErr.Type())
		assert.Equal(t, tt.final, appErr.NonRetryable())
		assert.GreaterOrEqual(t, appErr.NextRetryDelay(), tt.delay)
	}
}

func TestTools_TheAnswerMustBeAboutTheRequestedParcel(t *testing.T) {
	t.Parallel()
	tools, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"id": "LBL-2", "tracking_id": "PKG-2", "events": []}`)
	})
	_, statusErr := tools.GetDeliveryStatus(t.Context(), query)
	_, eventsErr := tools.GetTrackingEvents(t.Context(), query)
	_, labelErr := tools.CreateReturnLabel(t.Context(), query)
	for _, err := range []error{statusErr, eventsErr, labelErr} {
		var appErr *temporal.ApplicationError
		require.ErrorAs(t, err, &appErr)
		assert.Equal(t, "BadAnswer", appErr.Type())
	}
}

func TestTools_RejectMalformedQueriesWithoutACall(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	tools, _ := serve(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	for _, q := range []carrier.Query{
		{},
		{TrackingID: "PKG-1"},
		{Region: carrier.RegionEUWest},
		{TrackingID: "../admin", Region: carrier.RegionEUWest},
		{TrackingID: "PKG-1", Region: ".."},
	} {
		_, statusErr := tools.GetDeliveryStatus(t.Context(), q)
		_, eventsErr := tools.GetTrackingEvents(t.Context(), q)
		_, labelErr := tools.CreateReturnLabel(t.Context(), q)
		for _, err := range []error{statusErr, eventsErr, labelErr} {
			var appErr *temporal.ApplicationError
			require.ErrorAs(t, err, &appErr)
			assert.Equal(t, "InvalidQuery", appErr.Type())
			assert.True(t, appErr.NonRetryable())
		}
	}
	assert.Zero(t, calls.Load())
}

func TestTools_AQueryWithoutARegionUsesTheDefault(t *testing.T) {
	t.Parallel()
	tools, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/us-east/status/PKG-1", r.URL.Path)
		_, _ = io.WriteString(w, `{"tracking_id": "PKG-1"}`)
	})
	tools.Region = carrier.RegionUSEast
	_, err := tools.GetDeliveryStatus(t.Context(), carrier.Query{TrackingID: "PKG-1"})
	assert.NoError(t, err)
}

func TestCreateReturnLabel_AllAttemptsHaveOneIdempotencyKey(t *testing.T) {
	t.Parallel()
	keys := make(chan string, 5)
	tools, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get("Idempotency-Key")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	tools.Register(env)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Minute,
			RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 2},
		})
		_ = workflow.ExecuteActivity(ctx, carrier.CreateReturnLabel, query).Get(ctx, nil)
		_ = workflow.ExecuteActivity(ctx, carrier.CreateReturnLabel, query).Get(ctx, nil)
		ctx = workflow.WithRetryPolicy(ctx, temporal.RetryPolicy{MaximumAttempts: 1})
		_ = workflow.ExecuteActivity(ctx, carrier.GetDeliveryStatus, query).Get(ctx, nil)
		return nil
	})
	require.NoError(t, env.GetWorkflowError())

	one, again := <-keys, <-keys
	assert.NotEmpty(t, one)
	assert.Equal(t, one, again, "two attempts of one activity")
	another, again := <-keys, <-keys
	assert.Equal(t, another, again)
	assert.NotEqual(t, one, another, "two activities")
	assert.Empty(t, <-keys, "a call that only reads has none")
}
