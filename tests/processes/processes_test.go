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
func phases(t *testing.T, wrong func(c *cluster, phase breaker.State)) {
	c := newCluster(t, 3)
	stop := c.customersWrite("EU")
	time.Sleep(2 * time.Second) // some healthy calls
	broke := c.fault(carrier.EUWest, carrier.Hang)
	c.until(euWest, breaker.Open, breaker.HalfOpen)
	wrong(c, breaker.Open)
	c.reached(euWest, breaker.HalfOpen, broke)
	wrong(c, breaker.HalfOpen)
	repaired := c.fault(carrier.EUWest, carrier.Healthy)
	c.reached(euWest, breaker.Recovering, repaired)
	wrong(c, breaker.Recovering)
	c.until(euWest, breaker.Closed)
	stop()
	c.settled(euWest, 1)
}

func TestTheWorkerThatRunsTheOutageIsKilledInEachPhase(t *testing.T) {
	t.Parallel()
	phases(t, func(c *cluster, _ breaker.State) {
		who := c.decider()
		who.kill()
		c.startWorker(c.carrier.URL())
	})
}

// decider is the process that ran the outage's last workflow task.
func (c *cluster) decider() *process {
	c.t.Helper()
	last := ""
	events := c.client.GetWorkflowHistory(c.t.Context(), probeworkflow.OutageID(euWest), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(c.t, err)
		if a := event.GetWorkflowTaskCompletedEventAttributes(); a != nil {
			last = a.GetIdentity()
		}
	}
	for _, p := range c.alive() {
		if strings.HasPrefix(last, fmt.Sprintf("%d.", p.cmd.Process.Pid)) {
			return p
		}
	}
	// It is gone already.
	return c.alive()[0]
}

func TestTheServerIsStoppedAndStartedInEachPhase(t *testing.T) {
	t.Parallel()
	phases(t, func(c *cluster, _ breaker.State) {
		c.stopServer()
		time.Sleep(2 * time.Second) // for how long it is away
		c.startServer()
	})
}

// Every worker is replaced while it is open: each new one knows, and nothing
// begins anew.
func TestRollingRestartDuringAnOutage(t *testing.T) {
	t.Parallel()
	phases(t, func(c *cluster, phase breaker.State) {
		if phase != breaker.Open {
			return
		}
		for _, p := range c.alive() {
			since := time.Now()
			fresh := c.startWorker(c.carrier.URL())
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
	t.Parallel()
	c := newCluster(t, 3)
	stop := c.customersWrite("EU")
	time.Sleep(2 * time.Second) // some healthy calls
	c.fault(carrier.EUWest, carrier.Hang)
	c.until(euWest, breaker.Open, breaker.HalfOpen)
	cut := c.alive()[0]
	require.NoError(t, cut.cmd.Process.Signal(syscall.SIGSTOP))
	repaired := c.fault(carrier.EUWest, carrier.Healthy)
	c.reached(euWest, breaker.Closed, repaired)
	require.NoError(t, cut.cmd.Process.Signal(syscall.SIGCONT))
	c.until(euWest, breaker.Closed)
	stop()
	c.settled(euWest, 1)
}

func TestTwoRegionsAreDownAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	stop := c.customersWrite("EU", "US")
	time.Sleep(2 * time.Second) // some healthy calls
	c.fault(carrier.EUWest, carrier.Hang)
	c.fault(carrier.USEast, carrier.Error)
	c.until(euWest, breaker.Open, breaker.HalfOpen)
	c.until(usEast, breaker.Open, breaker.HalfOpen)
	for _, p := range c.alive() {
		p.mu.Lock()
		for _, e := range p.edges {
			assert.Contains(t, []breaker.Key{euWest, usEast}, e.Key)
		}
		p.mu.Unlock()
	}
	repaired := c.fault(carrier.EUWest, carrier.Healthy)
	c.fault(carrier.USEast, carrier.Healthy)
	c.reached(euWest, breaker.Closed, repaired)
	c.until(usEast, breaker.Closed)
	stop()
	c.settled(euWest, 1)
	c.settled(usEast, 1)
}

// Its tasks are served by the others, and no run is told that the carrier is
// down.
func TestAWorkerWithBrokenDNSIsServedByOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	broken := c.startWorker("http://carrier.invalid")
	stop := c.customersWrite("EU")
	require.Eventually(t, func() bool {
		_, edges := broken.state(euWest)
		return len(edges) > 0 && edges[0].To == breaker.Open
	}, patience, 50*time.Millisecond)
	time.Sleep(10 * time.Second) // in which it is quarantined
	stop()
	for _, o := range c.outcomes {
		assert.Zero(t, o.Unavailable, "%+v", o)
		assert.False(t, o.Empty || o.Text == "", "%+v", o)
	}
	t.Logf("%d tickets answered", len(c.outcomes))
	for _, p := range c.alive() {
		if p != broken {
			_, edges := p.state(euWest)
			assert.Empty(t, edges, "nothing is down")
		}
	}
}
