package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

const (
	// healthyRuns is the number of runs before a fault. They measure the duration of a
	// healthy run.
	healthyRuns = 10
	// runRatio limits the duration of a run that starts while the breaker is open, relative
	// to a healthy run.
	runRatio = 1.25
)

// Each scenario has healthy runs, a fault, one or more cooldowns, and the repair. Without
// -full, one fault hangs and one fails; the others are similar.
func TestOutage(t *testing.T) {
	for _, c := range []struct {
		fault    carrier.Fault
		onlyFull bool
	}{
		{fault: carrier.Fault{Kind: carrier.Hang}},
		{fault: carrier.Fault{Kind: carrier.Lying}},
		{fault: carrier.Fault{Kind: carrier.Slow}, onlyFull: true},
		{fault: carrier.Fault{Kind: carrier.Error}, onlyFull: true},
		{fault: carrier.Fault{Kind: carrier.Flaky, Share: 0.9}, onlyFull: true},
	} {
		t.Run(string(c.fault.Kind), func(t *testing.T) {
			if c.onlyFull {
				skipUnlessFull(t)
			}
			t.Parallel()
			testOutage(t, c.fault)
		})
	}
}

func testOutage(t *testing.T, fault carrier.Fault) {
	cooldowns := ifFull(2, 1) // after each, a probe fails
	s := newScenario(t, speed)
	s.startWorker()
	customers := s.startCustomers("EU", ticketInterval)
	healthy := customers.await(healthyRuns, time.Time{})

	faulted := s.setFault(carrier.EUWest, fault)
	opened := s.transitions.await(t, euWest, breaker.Open, faulted)
	reopened := opened.At
	for range cooldowns {
		probing := s.transitions.await(t, euWest, breaker.HalfOpen, reopened)
		reopened = s.transitions.await(t, euWest, breaker.Open, probing.At).At
	}
	if fault.Kind == carrier.Lying {
		assert.Equal(t, http.StatusOK, healthStatus(t, s.Carrier.URL()), "the health endpoint reports no fault")
	}
	repaired := s.repair(carrier.EUWest)
	closed := s.transitions.await(t, euWest, breaker.Closed, repaired)
	after := customers.await(1, closed.At)
	whileOpen := startedWhileBlocked(customers.finish(), s.transitions.of(euWest), repaired)

	for _, r := range healthy {
		assertComplete(t, r.outcome)
	}
	require.NotEmpty(t, whileOpen)
	longest := 0.0
	for _, r := range whileOpen {
		assertPartial(t, r.outcome)
		assert.Less(t, r.outcome.ToolCalls, healthy[0].outcome.ToolCalls, "a run that starts while open makes fewer calls than a healthy run")
		longest = max(longest, r.outcome.Seconds)
	}
	if *full {
		assert.LessOrEqual(t, longest, runRatio*medianSeconds(healthy), "a run that starts while open takes no longer than a healthy run")
	}
	assertComplete(t, after[0].outcome)

	assert.Empty(t, s.callsWhileBlocked(euWest), "customers' calls that reach the carrier while open or half-open")
	probes := callsBetween(s.calls(carrier.EUWest, carrier.Probe), opened.At, repaired)
	assert.GreaterOrEqual(t, len(probes), cooldowns, "probes that reach the carrier")
	for _, to := range states(transitionsBetween(s.transitions.of(euWest), opened.At, repaired)) {
		assert.Contains(t, []breaker.State{breaker.Open, breaker.HalfOpen}, to, "states during the fault")
	}
	recovery := states(transitionsBetween(s.transitions.of(euWest), repaired, closed.At.Add(1)))
	require.GreaterOrEqual(t, len(recovery), 3)
	assert.Equal(t, []breaker.State{breaker.HalfOpen, breaker.Recovering, breaker.Closed}, recovery[len(recovery)-3:])

	t.Logf("in scenario seconds: fault to open %.1f, repair to closed %.1f; longest of %d runs while open %.2f of a healthy run; %s",
		s.scenarioSeconds(opened.At.Sub(faulted)), s.scenarioSeconds(closed.At.Sub(repaired)),
		len(whileOpen), longest/medianSeconds(healthy), opened.Reason)
}

// startedWhileBlocked returns the runs that started during the fault while the breaker was
// open or half-open.
func startedWhileBlocked(runs []run, transitions []breaker.Transition, repaired time.Time) []run {
	var blocked []run
	for _, r := range runs {
		if _, refused := blockedSince(transitions, r.started); refused && r.started.Before(repaired) {
			blocked = append(blocked, r)
		}
	}
	return blocked
}

func healthStatus(t *testing.T, url string) int {
	t.Helper()
	response, err := http.Get(url + "/" + carrier.EUWest + "/health")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// Hanging calls count as slow before they end. A breaker that counts only completed calls
// would have no sample yet.
func TestHangingCallsOpenTheBreakerBeforeTheyEnd(t *testing.T) {
	t.Parallel()
	s := newScenario(t, ifFull(2.0, speed)) // at this speed, schedulingDelay is less than the limit
	s.startWorker()
	s.startCustomers("EU", ticketInterval).await(4, time.Time{})

	faulted := s.setFault(carrier.EUWest, carrier.Fault{Kind: carrier.Hang})
	opened := s.transitions.await(t, euWest, breaker.Open, faulted)

	if *full {
		limit := s.BreakerConfig().Latency + s.Scaled(time.Second)
		assert.LessOrEqual(t, opened.At.Sub(faulted), limit+schedulingDelay)
	}
	assert.Equal(t, breaker.RuleLatency, opened.Reason.Rule)
	assert.Zero(t, opened.Reason.Slow, "no slow call has ended")
	assert.GreaterOrEqual(t, opened.Reason.Hung, s.BreakerConfig().WithDefaults().MinSlow)
	for _, c := range callsBetween(s.calls(carrier.EUWest, carrier.Customer), faulted, opened.At) {
		assert.Zero(t, c.Status, "no hanging call has a response")
	}
	t.Logf("in scenario seconds: fault to open %.1f; %s", s.scenarioSeconds(opened.At.Sub(faulted)), opened.Reason)
}

func TestRateLimitDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	s := newScenario(t, speed)
	s.startWorker()
	customers := s.startCustomers("EU", ticketInterval)
	customers.await(healthyRuns, time.Time{})

	s.setFault(carrier.EUWest, carrier.Fault{Kind: carrier.RateLimited})
	awaitResponses(t, s, http.StatusTooManyRequests, ifFull(100, 40))

	assert.Empty(t, s.transitions.of(euWest))
}

// Three of ten calls fail. Ten seconds contain thirty calls.
func TestFewFailuresDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	s := newScenario(t, 2)
	s.startWorker()
	customers := s.startCustomers("EU", time.Second)
	customers.await(healthyRuns, time.Time{})

	s.setFault(carrier.EUWest, carrier.Fault{Kind: carrier.Flaky, Share: 0.3})
	awaitResponses(t, s, http.StatusServiceUnavailable, ifFull(60, 30))

	assert.Empty(t, s.transitions.of(euWest))
}

func TestShortFaultDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	s := newScenario(t, speed)
	s.startWorker()
	customers := s.startCustomers("EU", ticketInterval)
	customers.await(healthyRuns, time.Time{})

	faulted := s.setFault(carrier.EUWest, carrier.Fault{Kind: carrier.Error})
	awaitResponses(t, s, http.StatusServiceUnavailable, 4) // two seconds of scenario time
	repaired := s.repair(carrier.EUWest)
	customers.await(healthyRuns, repaired)

	assert.Empty(t, s.transitions.of(euWest))
	for _, r := range startedSince(customers.finish(), faulted) {
		assertComplete(t, r.outcome)
	}
}

// awaitResponses waits until eu-west has sent n responses with a status.
func awaitResponses(t *testing.T, s *scenario, status, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return s.Carrier.State().Regions[carrier.EUWest].Answers[status] >= n
	}, waitTimeout, 10*time.Millisecond)
}

func TestOutageAffectsNoOtherRegionAndDependency(t *testing.T) {
	t.Parallel()
	s := newScenario(t, speed)
	w := s.startWorker()
	european := s.startCustomers("EU", ticketInterval)
	american := s.startCustomers("US", ticketInterval)
	european.await(healthyRuns, time.Time{})

	faulted := s.setFault(carrier.EUWest, carrier.Fault{Kind: carrier.Hang})
	opened := s.transitions.await(t, euWest, breaker.Open, faulted)
	s.transitions.await(t, euWest, breaker.HalfOpen, opened.At)
	american.await(healthyRuns, opened.At)
	european.await(healthyRuns, opened.At)

	for _, r := range american.finish() {
		assertComplete(t, r.outcome)
	}
	assert.Empty(t, s.transitions.of(usEast))
	assert.Empty(t, s.transitions.of(orderDB))
	for _, b := range w.Plugin.Breakers() {
		assert.Equal(t, b.Key == euWest, b.State != breaker.Closed, "%s is %s", b.Key, b.State)
	}
	for _, e := range s.table().Entries {
		assert.Equal(t, euWest, e.Key, "entries of the board")
	}
}
