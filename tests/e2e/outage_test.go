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
	// healthyRuns are enough to know how long a run takes, and for the breaker to
	// know the carrier.
	healthyRuns = 10
	// runRatio is how long a run may last once the breaker is open, to a healthy one.
	runRatio = 1.25
)

// Each kind of fault is one story: healthy runs, the fault, cooldown upon
// cooldown while it lasts, the repair. One kind hangs and one fails; the others repeat
// that in other words.
func TestOutage(t *testing.T) {
	for _, c := range []struct {
		fault    carrier.Fault
		repeated bool
	}{
		{fault: carrier.Fault{Kind: carrier.Hang}},
		{fault: carrier.Fault{Kind: carrier.Lying}},
		{fault: carrier.Fault{Kind: carrier.Slow}, repeated: true},
		{fault: carrier.Fault{Kind: carrier.Error}, repeated: true},
		{fault: carrier.Fault{Kind: carrier.Flaky, Share: 0.9}, repeated: true},
	} {
		t.Run(string(c.fault.Kind), func(t *testing.T) {
			if c.repeated {
				onlyInFull(t)
			}
			t.Parallel()
			playOutage(t, c.fault)
		})
	}
}

func playOutage(t *testing.T, fault carrier.Fault) {
	cooldownRounds := inFull(2, 1) // how many times in a row probes find the carrier down
	s := newStory(t, speed)
	s.startWorker()
	customers := s.customersWrite("EU", ticketEvery)
	healthy := customers.await(healthyRuns, time.Time{})

	faulted := s.breakCarrier(carrier.EUWest, fault)
	opened := s.edges.await(t, euWest, breaker.Open, faulted)
	reopened := opened.At
	for range cooldownRounds {
		probing := s.edges.await(t, euWest, breaker.HalfOpen, reopened)
		reopened = s.edges.await(t, euWest, breaker.Open, probing.At).At
	}
	if fault.Kind == carrier.Lying {
		assert.Equal(t, http.StatusOK, healthStatus(t, s.Carrier.URL()), "the carrier says that all is well")
	}
	repaired := s.repair(carrier.EUWest)
	closed := s.edges.await(t, euWest, breaker.Closed, repaired)
	after := customers.await(1, closed.At)
	onceOpen := startedWhileBlocked(customers.leave(), s.edges.of(euWest), repaired)

	for _, r := range healthy {
		assertWhole(t, r.outcome)
	}
	require.NotEmpty(t, onceOpen)
	longest := 0.0
	for _, r := range onceOpen {
		assertPartial(t, r.outcome)
		assert.Less(t, r.outcome.ToolCalls, healthy[0].outcome.ToolCalls, "a run begun once open makes fewer calls than a healthy one")
		longest = max(longest, r.outcome.Seconds)
	}
	if *full {
		assert.LessOrEqual(t, longest, runRatio*medianSeconds(healthy), "a run begun once open ends as soon as a healthy one")
	}
	assertWhole(t, after[0].outcome)

	assert.Empty(t, s.callsWhileBlocked(euWest), "customers' calls that reached the carrier while open or half-open")
	probes := arrived(s.calls(carrier.EUWest, carrier.Probe), opened.At, repaired)
	assert.GreaterOrEqual(t, len(probes), cooldownRounds, "probes do reach it")
	for _, to := range path(between(s.edges.of(euWest), opened.At, repaired)) {
		assert.Contains(t, []breaker.State{breaker.Open, breaker.HalfOpen}, to, "while the fault lasts")
	}
	recovery := path(between(s.edges.of(euWest), repaired, closed.At.Add(1)))
	require.GreaterOrEqual(t, len(recovery), 3)
	assert.Equal(t, []breaker.State{breaker.HalfOpen, breaker.Recovering, breaker.Closed}, recovery[len(recovery)-3:])

	t.Logf("in seconds of the story: fault to open %.1f, repair to closed %.1f; longest run once open %.2f of a healthy one, of %d; %s",
		s.storySeconds(opened.At.Sub(faulted)), s.storySeconds(closed.At.Sub(repaired)),
		longest/medianSeconds(healthy), len(onceOpen), opened.Reason)
}

// startedWhileBlocked are the runs begun while the breaker was open or half-open
// and the fault lasted.
func startedWhileBlocked(runs []run, edges []breaker.Transition, repaired time.Time) []run {
	var blocked []run
	for _, r := range runs {
		if _, refused := blockedSince(edges, r.began); refused && r.began.Before(repaired) {
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

// A breaker of completed calls would still be waiting for its first sample.
func TestHangingCallsOpenTheBreakerBeforeAnyOfThemHasEnded(t *testing.T) {
	t.Parallel()
	s := newStory(t, inFull(2.0, speed)) // slow enough that busyMachine is less than the limit
	s.startWorker()
	s.customersWrite("EU", ticketEvery).await(4, time.Time{})

	faulted := s.breakCarrier(carrier.EUWest, carrier.Fault{Kind: carrier.Hang})
	opened := s.edges.await(t, euWest, breaker.Open, faulted)

	if *full {
		limit := s.BreakerConfig().Latency + s.Scaled(time.Second)
		assert.LessOrEqual(t, opened.At.Sub(faulted), limit+busyMachine)
	}
	assert.Equal(t, breaker.RuleLatency, opened.Reason.Rule)
	assert.Zero(t, opened.Reason.Slow, "slow calls that have ended")
	assert.GreaterOrEqual(t, opened.Reason.Hung, s.BreakerConfig().WithDefaults().MinSlow)
	for _, c := range arrived(s.calls(carrier.EUWest, carrier.Customer), faulted, opened.At) {
		assert.Zero(t, c.Status, "an answer to a call that hangs")
	}
	t.Logf("in seconds of the story: fault to open %.1f; %s", s.storySeconds(opened.At.Sub(faulted)), opened.Reason)
}

// What is no outage.

func TestRateLimitDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	s := newStory(t, speed)
	s.startWorker()
	customers := s.customersWrite("EU", ticketEvery)
	customers.await(healthyRuns, time.Time{})

	s.breakCarrier(carrier.EUWest, carrier.Fault{Kind: carrier.RateLimited})
	awaitAnswers(t, s, http.StatusTooManyRequests, inFull(100, 40))

	assert.Empty(t, s.edges.of(euWest))
}

// Three calls in ten fail, at a pace at which ten seconds hold thirty of them.
func TestFewFailuresDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	s := newStory(t, 2)
	s.startWorker()
	customers := s.customersWrite("EU", time.Second)
	customers.await(healthyRuns, time.Time{})

	s.breakCarrier(carrier.EUWest, carrier.Fault{Kind: carrier.Flaky, Share: 0.3})
	awaitAnswers(t, s, http.StatusServiceUnavailable, inFull(60, 30))

	assert.Empty(t, s.edges.of(euWest))
}

func TestBlipDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	s := newStory(t, speed)
	s.startWorker()
	customers := s.customersWrite("EU", ticketEvery)
	customers.await(healthyRuns, time.Time{})

	faulted := s.breakCarrier(carrier.EUWest, carrier.Fault{Kind: carrier.Error})
	awaitAnswers(t, s, http.StatusServiceUnavailable, 4) // which two seconds of the story hold
	repaired := s.repair(carrier.EUWest)
	customers.await(healthyRuns, repaired)

	assert.Empty(t, s.edges.of(euWest))
	for _, r := range begunFrom(customers.leave(), faulted) {
		assertWhole(t, r.outcome)
	}
}

// awaitAnswers waits until eu-west has given n answers of a status.
func awaitAnswers(t *testing.T, s *story, status, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return s.Carrier.State().Regions[carrier.EUWest].Answers[status] >= n
	}, patience, 10*time.Millisecond)
}

// What an outage leaves alone.

func TestOutageStaysInItsRegionAndDependency(t *testing.T) {
	t.Parallel()
	s := newStory(t, speed)
	w := s.startWorker()
	european := s.customersWrite("EU", ticketEvery)
	american := s.customersWrite("US", ticketEvery)
	european.await(healthyRuns, time.Time{})

	faulted := s.breakCarrier(carrier.EUWest, carrier.Fault{Kind: carrier.Hang})
	opened := s.edges.await(t, euWest, breaker.Open, faulted)
	s.edges.await(t, euWest, breaker.HalfOpen, opened.At)
	american.await(healthyRuns, opened.At)
	european.await(healthyRuns, opened.At)

	for _, r := range american.leave() {
		assertWhole(t, r.outcome)
	}
	assert.Empty(t, s.edges.of(usEast))
	assert.Empty(t, s.edges.of(orderDB))
	for _, b := range w.Plugin.Breakers() {
		assert.Equal(t, b.Key == euWest, b.State != breaker.Closed, "%s is %s", b.Key, b.State)
	}
	for _, e := range s.table().Entries {
		assert.Equal(t, euWest, e.Key, "on the board")
	}
}
