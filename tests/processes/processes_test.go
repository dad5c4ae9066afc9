package processes_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

// phases are what an outage goes through while something goes wrong with the
// fleet itself, in each of them.
func phases(t *testing.T, wrong func(h *house, phase breaker.State)) {
	h := openHouse(t, 3)
	stop := h.customersWrite("EU")
	time.Sleep(2 * time.Second) // some healthy calls
	broke := h.fault(carrier.EUWest, carrier.Hang)
	h.until(euWest, breaker.Open, breaker.HalfOpen)
	wrong(h, breaker.Open)
	h.reached(euWest, breaker.HalfOpen, broke)
	wrong(h, breaker.HalfOpen)
	repaired := h.fault(carrier.EUWest, carrier.Healthy)
	h.reached(euWest, breaker.Recovering, repaired)
	wrong(h, breaker.Recovering)
	h.until(euWest, breaker.Closed)
	stop()
	h.settled(euWest, 1)
}

func TestTheWorkerThatRunsTheOutageIsKilledInEachPhase(t *testing.T) {
	phases(t, func(h *house, _ breaker.State) {
		who := h.decider()
		who.kill()
		h.startWorker(h.carrier.URL())
	})
}

// decider is the process that ran the outage's last workflow task.
func (h *house) decider() *process {
	h.t.Helper()
	last := ""
	events := h.client.GetWorkflowHistory(h.t.Context(), probeworkflow.OutageID(euWest), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(h.t, err)
		if a := event.GetWorkflowTaskCompletedEventAttributes(); a != nil {
			last = a.GetIdentity()
		}
	}
	for _, p := range h.alive() {
		if strings.HasPrefix(last, fmt.Sprintf("%d.", p.cmd.Process.Pid)) {
			return p
		}
	}
	// It is gone already.
	return h.alive()[0]
}

func TestTheServerIsStoppedAndStartedInEachPhase(t *testing.T) {
	phases(t, func(h *house, _ breaker.State) {
		h.stopServer()
		time.Sleep(2 * time.Second) // for how long it is away
		h.startServer()
	})
}

// Every worker is replaced while it is open: each new one knows, and nothing
// begins anew.
func TestRollingRestartDuringAnOutage(t *testing.T) {
	phases(t, func(h *house, phase breaker.State) {
		if phase != breaker.Open {
			return
		}
		for _, p := range h.alive() {
			since := time.Now()
			fresh := h.startWorker(h.carrier.URL())
			p.stop()
			require.Eventually(t, func() bool {
				_, edges := fresh.state(euWest)
				return len(edges) > 0
			}, patience, 10*time.Millisecond)
			_, edges := fresh.state(euWest)
			assert.False(t, edges[0].Local, "it was told")
			assert.NotEqual(t, breaker.Closed, edges[0].To)
			assert.True(t, edges[0].At.After(since))
		}
	})
}

// A worker that hears nothing for longer than the outage lasts.
func TestAWorkerIsCutOffForLongerThanTheOutage(t *testing.T) {
	h := openHouse(t, 3)
	stop := h.customersWrite("EU")
	time.Sleep(2 * time.Second) // some healthy calls
	h.fault(carrier.EUWest, carrier.Hang)
	h.until(euWest, breaker.Open, breaker.HalfOpen)
	cut := h.alive()[0]
	require.NoError(t, cut.cmd.Process.Signal(syscall.SIGSTOP))
	repaired := h.fault(carrier.EUWest, carrier.Healthy)
	h.reached(euWest, breaker.Closed, repaired)
	require.NoError(t, cut.cmd.Process.Signal(syscall.SIGCONT))
	h.until(euWest, breaker.Closed)
	stop()
	h.settled(euWest, 1)
}

func TestTwoRegionsAreDownAtOnce(t *testing.T) {
	h := openHouse(t, 3)
	stop := h.customersWrite("EU", "US")
	time.Sleep(2 * time.Second) // some healthy calls
	h.fault(carrier.EUWest, carrier.Hang)
	h.fault(carrier.USEast, carrier.Error)
	h.until(euWest, breaker.Open, breaker.HalfOpen)
	h.until(usEast, breaker.Open, breaker.HalfOpen)
	for _, p := range h.alive() {
		p.mu.Lock()
		for _, e := range p.edges {
			assert.Contains(t, []breaker.Key{euWest, usEast}, e.Key)
		}
		p.mu.Unlock()
	}
	repaired := h.fault(carrier.EUWest, carrier.Healthy)
	h.fault(carrier.USEast, carrier.Healthy)
	h.reached(euWest, breaker.Closed, repaired)
	h.until(usEast, breaker.Closed)
	stop()
	h.settled(euWest, 1)
	h.settled(usEast, 1)
}

// Its tasks are served by the others, and no run is told that the carrier is
// down.
func TestAWorkerWithBrokenDNSIsServedByOthers(t *testing.T) {
	h := openHouse(t, 3)
	broken := h.startWorker("http://carrier.invalid")
	stop := h.customersWrite("EU")
	require.Eventually(t, func() bool {
		_, edges := broken.state(euWest)
		return len(edges) > 0 && edges[0].To == breaker.Open
	}, patience, 50*time.Millisecond)
	time.Sleep(10 * time.Second) // in which it is quarantined
	stop()
	for _, o := range h.outcomes {
		assert.Zero(t, o.Unavailable, "%+v", o)
		assert.False(t, o.Empty || o.Text == "", "%+v", o)
	}
	t.Logf("%d tickets answered", len(h.outcomes))
	for _, p := range h.alive() {
		if p != broken {
			_, edges := p.state(euWest)
			assert.Empty(t, edges, "nothing is down")
		}
	}
}
