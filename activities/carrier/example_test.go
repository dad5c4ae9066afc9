package carrier_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/toolbreaker/toolbreaker/activities/carrier"
)

// The tools are registered with a worker, here with a test environment.
func ExampleTools() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"tracking_id": "PKG-1", "state": "in_transit"}`)
	}))
	defer server.Close()
	tools := &carrier.Tools{BaseURL: server.URL, Region: carrier.RegionEUWest}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	tools.Register(env)

	value, err := env.ExecuteActivity(carrier.GetDeliveryStatus, carrier.Query{TrackingID: "PKG-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	var status carrier.Status
	fmt.Println(value.Get(&status), status.State)
	// Output: <nil> in_transit
}
