package carrier_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	tools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fast makes a healthy call take 2 ms.
const fast = 1000

// never is a duration that no test waits for.
const never = 24 * time.Hour

// start runs a simulator until the test ends.
func start(t *testing.T, o carrier.Options) *carrier.Server {
	t.Helper()
	s, err := carrier.Start(o)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// client returns the tools with s as their server.
func client(t *testing.T, s *carrier.Server) *tools.Tools {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &tools.Tools{BaseURL: s.URL(), HTTP: &http.Client{Transport: transport}}
}

func status(t *testing.T, c *tools.Tools, region string) error {
	_, err := c.GetDeliveryStatus(t.Context(), tools.Query{TrackingID: "PKG-1001", Region: region})
	return err
}

// inBackground starts a call and waits until it has reached s.
func inBackground(ctx context.Context, t *testing.T, s *carrier.Server, c *tools.Tools) <-chan error {
	t.Helper()
	before := s.State().Regions[carrier.EUWest].InFlight
	result := make(chan error, 1)
	go func() {
		_, err := c.GetDeliveryStatus(ctx, tools.Query{TrackingID: "PKG-1001", Region: carrier.EUWest})
		result <- err
	}()
	require.Eventually(t, func() bool {
		return s.State().Regions[carrier.EUWest].InFlight == before+1
	}, 10*time.Second, time.Millisecond)
	return result
}

func httpStatus(t *testing.T, err error) int {
	t.Helper()
	var httpErr *tools.HTTPError
	require.ErrorAs(t, err, &httpErr)
	return httpErr.HTTPStatus()
}

// request sends a request without the tools' client.
func request(t *testing.T, method, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}
