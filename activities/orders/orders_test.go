package orders_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/toolbreaker/toolbreaker/activities/orders"
)

func serve(t *testing.T, handler http.HandlerFunc) *testsuite.TestActivityEnvironment {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	(&orders.Tools{BaseURL: server.URL, HTTP: server.Client()}).Register(env)
	return env
}

func typeOf(t *testing.T, err error) string {
	t.Helper()
	var appErr *temporal.ApplicationError
	require.ErrorAs(t, err, &appErr)
	return appErr.Type()
}

func TestLookupOrder(t *testing.T) {
	t.Parallel()
	env := serve(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/orders/EU-7", r.URL.Path)
		_, _ = io.WriteString(w, `{"id": "EU-7", "customer": "Ada", "tracking_id": "PKG-1", "region": "eu-west", "item": "lamp"}`)
	})
	value, err := env.ExecuteActivity("lookup_order", orders.Query{OrderID: "EU-7"})
	require.NoError(t, err)
	var order orders.Order
	require.NoError(t, value.Get(&order))
	assert.Equal(t, orders.Order{ID: "EU-7", Customer: "Ada", TrackingID: "PKG-1", Region: "eu-west", Item: "lamp"}, order)

	_, err = env.ExecuteActivity("lookup_order", orders.Query{OrderID: "a/b"})
	assert.Equal(t, "InvalidQuery", typeOf(t, err))
}

func TestLookupOrder_Errors(t *testing.T) {
	t.Parallel()
	_, err := serve(t, http.NotFound).ExecuteActivity(orders.LookupOrder, orders.Query{OrderID: "EU-7"})
	assert.Equal(t, "NotFound", typeOf(t, err))

	other := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"id": "EU-8"}`) })
	_, err = other.ExecuteActivity(orders.LookupOrder, orders.Query{OrderID: "EU-7"})
	assert.Equal(t, "BadAnswer", typeOf(t, err))
}
