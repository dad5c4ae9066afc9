package carrier_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	tools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

func TestCalls_AreCountedByRegionAndKind(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Speed: fast})
	c := client(t, s)
	probe := breaker.WithProbe(t.Context())
	begin := time.Now()

	q := tools.Query{TrackingID: "PKG-1001", Region: carrier.EUWest}
	_, err := c.GetDeliveryStatus(t.Context(), q)
	require.NoError(t, err)
	_, err = c.CreateReturnLabel(t.Context(), q)
	require.NoError(t, err)
	_, err = c.GetDeliveryStatus(probe, q)
	require.NoError(t, err)
	q.Region = carrier.USEast
	_, err = c.GetTrackingEvents(probe, q)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, request(t, "GET", s.URL()+"/us-east/events/PKG-1").StatusCode, "no header: a customer's")
	request(t, "GET", s.URL()+"/us-east/health")

	want := []carrier.Call{
		{Region: carrier.EUWest, Kind: carrier.Customer, Tool: tools.GetDeliveryStatus, Status: 200},
		{Region: carrier.EUWest, Kind: carrier.Customer, Tool: tools.CreateReturnLabel, Status: 201},
		{Region: carrier.EUWest, Kind: carrier.Probe, Tool: tools.GetDeliveryStatus, Status: 200},
		{Region: carrier.USEast, Kind: carrier.Probe, Tool: tools.GetTrackingEvents, Status: 200},
		{Region: carrier.USEast, Kind: carrier.Customer, Tool: tools.GetTrackingEvents, Status: 200},
		{Region: carrier.USEast, Kind: carrier.HealthCheck, Tool: "health", Status: 200},
	}
	got := s.Calls()
	for i := range got {
		assert.WithinRange(t, got[i].At, begin, time.Now())
		begin = got[i].At
		got[i].At = time.Time{}
	}
	assert.Equal(t, want, got)

	state := s.State()
	assert.Equal(t, carrier.Counts{
		Calls:   map[carrier.CallKind]int{carrier.Customer: 2, carrier.Probe: 1},
		Answers: map[int]int{200: 2, 201: 1},
	}, state.Regions[carrier.EUWest].Counts)
	assert.Equal(t, carrier.Counts{
		Calls:   map[carrier.CallKind]int{carrier.Customer: 1, carrier.Probe: 1, carrier.HealthCheck: 1},
		Answers: map[int]int{200: 3},
	}, state.Regions[carrier.USEast].Counts)
	assert.Equal(t, 2, s.Count(func(c carrier.Call) bool { return c.Kind == carrier.Probe }))
}

func TestCalls_ConcurrentCallsAreCountedOnce(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Speed: fast})
	c := client(t, s)
	const workers, each = 8, 25
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				assert.NoError(t, status(t, c, carrier.EUWest))
			}
		})
	}
	wg.Wait()
	assert.Len(t, s.Calls(), workers*each)
	counts := s.State().Regions[carrier.EUWest].Counts
	assert.Equal(t, workers*each, counts.Calls[carrier.Customer])
	assert.Equal(t, workers*each, counts.Answers[200])
	assert.Zero(t, counts.InFlight)
}

func TestCalls_KeepsTheLatestAndCountsAll(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{})
	call := carrier.Call{Region: carrier.EUWest, Kind: carrier.Customer, Tool: tools.GetDeliveryStatus}
	overwritten := s.StartCall(call)
	for range carrier.MaxCalls {
		s.StartCall(call)(200)
	}
	s.StartCall(carrier.Call{Region: carrier.USEast, Kind: carrier.Probe})

	overwritten(503)
	calls := s.Calls()
	require.Len(t, calls, carrier.MaxCalls)
	assert.Equal(t, carrier.USEast, calls[len(calls)-1].Region, "the latest is last")
	assert.Zero(t, s.Count(func(c carrier.Call) bool { return c.Status == 503 }),
		"the answer of an overwritten call changes no other call")
	counts := s.State().Regions[carrier.EUWest].Counts
	assert.Equal(t, carrier.MaxCalls+1, counts.Calls[carrier.Customer])
	assert.Equal(t, map[int]int{200: carrier.MaxCalls, 503: 1}, counts.Answers)
	assert.Equal(t, 1, s.State().Regions[carrier.USEast].InFlight)
}

func TestResetCounts_WithCallsInProgress(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{})
	call := carrier.Call{Region: carrier.EUWest, Kind: carrier.Customer}
	open := s.StartCall(call)
	s.ResetCounts()
	assert.Empty(t, s.Calls())
	assert.Equal(t, 1, s.State().Regions[carrier.EUWest].InFlight, "the call is still in progress")

	later := s.StartCall(call)
	open(200)
	later(503)
	require.Len(t, s.Calls(), 1)
	assert.Equal(t, 503, s.Calls()[0].Status)
	assert.Equal(t, carrier.Counts{
		Calls:   map[carrier.CallKind]int{carrier.Customer: 1},
		Answers: map[int]int{503: 1},
	}, s.State().Regions[carrier.EUWest].Counts)
}
