package carrier_test

import (
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	tools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/activities/orders"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

func TestStart_InvalidOptions(t *testing.T) {
	t.Parallel()
	taken := start(t, carrier.Options{})
	for name, o := range map[string]carrier.Options{
		"negative work":  {Work: -time.Second},
		"negative speed": {Speed: -1},
		"speed NaN":      {Speed: math.NaN()},
		"infinite speed": {Speed: math.Inf(1)},
		"address in use": {Addr: taken.URL()[len("http://"):]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := carrier.Start(o)
			assert.Error(t, err)
		})
	}
}

func TestEveryToolIsServed(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Speed: fast})
	c := client(t, s)
	for _, region := range []string{carrier.EUWest, carrier.USEast} {
		q := tools.Query{TrackingID: "PKG-1001", Region: region}

		status, err := c.GetDeliveryStatus(t.Context(), q)
		require.NoError(t, err)
		assert.NotEmpty(t, status.State)
		assert.NotEmpty(t, status.LastLocation)
		assert.False(t, status.ETA.Before(status.UpdatedAt))

		events, err := c.GetTrackingEvents(t.Context(), q)
		require.NoError(t, err)
		require.NotEmpty(t, events.Events)
		assert.Equal(t, status.State, events.Events[len(events.Events)-1].State, "the status is the last event")

		label, err := c.CreateReturnLabel(t.Context(), q)
		require.NoError(t, err)
		again, err := c.CreateReturnLabel(t.Context(), q)
		require.NoError(t, err)
		assert.Equal(t, label, again, "one parcel has one label")
	}
}

func TestOrders_AreServedDuringAnOutage(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Speed: fast})
	db := &orders.Tools{BaseURL: s.URL(), HTTP: client(t, s).HTTP}
	for _, region := range []string{carrier.EUWest, carrier.USEast} {
		require.NoError(t, s.SetFault(region, carrier.Fault{Kind: carrier.Hang}))
	}

	order, err := db.LookupOrder(t.Context(), orders.Query{OrderID: "EU-7"})
	require.NoError(t, err)
	assert.Equal(t, carrier.EUWest, order.Region)
	assert.NotEmpty(t, order.Customer)
	assert.NotEmpty(t, order.Item)

	order, err = db.LookupOrder(t.Context(), orders.Query{OrderID: "US-7"})
	require.NoError(t, err)
	assert.Equal(t, carrier.USEast, order.Region)

	again, err := db.LookupOrder(t.Context(), orders.Query{OrderID: "US-7"})
	require.NoError(t, err)
	assert.Equal(t, order, again, "an order does not change")

	assert.Equal(t, 3, s.State().Orders.Calls[carrier.Customer])
	assert.Equal(t, 3, s.Count(func(c carrier.Call) bool { return c.Region == "" && c.Tool == orders.LookupOrder }))
}

func TestUnknownIdentifiers_AreNotFound(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Speed: fast})
	c := client(t, s)
	q := tools.Query{TrackingID: "UNKNOWN-1", Region: carrier.EUWest}
	for name, call := range map[string]func() error{
		tools.GetDeliveryStatus: func() error { _, err := c.GetDeliveryStatus(t.Context(), q); return err },
		tools.GetTrackingEvents: func() error { _, err := c.GetTrackingEvents(t.Context(), q); return err },
		tools.CreateReturnLabel: func() error { _, err := c.CreateReturnLabel(t.Context(), q); return err },
		orders.LookupOrder: func() error {
			db := &orders.Tools{BaseURL: s.URL(), HTTP: c.HTTP}
			_, err := db.LookupOrder(t.Context(), orders.Query{OrderID: "unknown-1"})
			return err
		},
		"a region that does not exist": func() error { return status(t, c, "mars-1") },
	} {
		err := call()
		assert.Equal(t, http.StatusNotFound, httpStatus(t, err), name)
		var appErr *temporal.ApplicationError
		require.ErrorAs(t, err, &appErr)
		assert.Equal(t, "NotFound", appErr.Type())
		assert.True(t, appErr.NonRetryable())
	}
}

func TestStop_EndsHungCalls(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Work: never})
	c := client(t, s)
	working := inBackground(t.Context(), t, s, c)
	require.NoError(t, s.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Hang}))
	hung := inBackground(t.Context(), t, s, c)

	var stops sync.WaitGroup
	for range 3 {
		stops.Go(s.Stop)
	}
	stops.Wait()
	s.Stop()

	for _, result := range []<-chan error{working, hung} {
		var appErr *temporal.ApplicationError
		require.ErrorAs(t, <-result, &appErr)
		assert.Equal(t, "ConnectionFailed", appErr.Type(), "the connection was closed without an answer")
	}
	assert.Zero(t, s.State().Regions[carrier.EUWest].InFlight)
	assert.Equal(t, 2, s.Count(func(c carrier.Call) bool { return c.Status == 0 }), "neither was answered")
	assert.Error(t, status(t, c, carrier.EUWest), "the server does not listen any more")
}
