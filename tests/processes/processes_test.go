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

// inEachPhase runs an outage and calls disturb once in each of its phases: open, half-open
// and recovering.
func inEachPhase(t *testing.T, disturb func(c *cluster, phase breaker.State)) {
	c := newCluster(t, 3)
	stop := c.startCustomers("EU")
	time.Sleep(2 * time.Second) // some healthy calls
	faulted := c.setFault(carrier.EUWest, carrier.Hang)
	c.awaitAll(euWest, breaker.Open, breaker.HalfOpen)
	disturb(c, breaker.Open)
	c.awaitAny(euWest, breaker.HalfOpen, faulted)
	disturb(c, breaker.HalfOpen)
	repaired := c.setFault(carrier.EUWest, carrier.Healthy)
	c.awaitAny(euWest, breaker.Recovering, repaired)
	disturb(c, breaker.Recovering)
	c.awaitAll(euWest, breaker.Closed)
	stop()
	c.assertRecovered(euWest, 1)
}

func TestOutageWorkerIsKilledInEachPhase(t *testing.T) {
	t.Parallel()
	inEachPhase(t, func(c *cluster, _ breaker.State) {
		c.outageWorker().kill()
		c.startWorker(c.carrier.URL())
	})
}

// outageWorker returns the process that completed the last workflow task of the outage.
func (c *cluster) outageWorker() *process {
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
	for _, p := range c.running() {
		if strings.HasPrefix(last, fmt.Sprintf("%d.", p.cmd.Process.Pid)) {
			return p
		}
	}
	// That process has exited.
	return c.running()[0]
}

func TestServerRestartsInEachPhase(t *testing.T) {
	t.Parallel()
	inEachPhase(t, func(c *cluster, _ breaker.State) {
		c.stopServer()
		time.Sleep(2 * time.Second) // the downtime
		c.startServer()
	})
}

// Every worker is replaced while the breaker is open. Each new worker receives the verdict,
// and no new outage begins.
func TestRollingRestartDuringAnOutage(t *testing.T) {
	t.Parallel()
	inEachPhase(t, func(c *cluster, phase breaker.State) {
		if phase != breaker.Open {
			return
		}
		for _, p := range c.running() {
			since := time.Now()
			replacement := c.startWorker(c.carrier.URL())
			p.stop()
			require.Eventually(t, func() bool {
				_, transitions := replacement.state(euWest)
				return len(transitions) > 0
			}, waitTimeout, 10*time.Millisecond)
			_, transitions := replacement.state(euWest)
			assert.False(t, transitions[0].Local, "the verdict comes from the fleet")
			assert.NotEqual(t, breaker.Closed, transitions[0].To)
			assert.True(t, transitions[0].At.After(since))
		}
	})
}

// One worker is suspended until the outage has ended.
func TestWorkerIsSuspendedUntilTheOutageEnds(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	stop := c.startCustomers("EU")
	time.Sleep(2 * time.Second) // some healthy calls
	c.setFault(carrier.EUWest, carrier.Hang)
	c.awaitAll(euWest, breaker.Open, breaker.HalfOpen)
	suspended := c.running()[0]
	require.NoError(t, suspended.cmd.Process.Signal(syscall.SIGSTOP))
	repaired := c.setFault(carrier.EUWest, carrier.Healthy)
	c.awaitAny(euWest, breaker.Closed, repaired)
	require.NoError(t, suspended.cmd.Process.Signal(syscall.SIGCONT))
	c.awaitAll(euWest, breaker.Closed)
	stop()
	c.assertRecovered(euWest, 1)
}

func TestTwoRegionsAreDownAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	stop := c.startCustomers("EU", "US")
	time.Sleep(2 * time.Second) // some healthy calls
	c.setFault(carrier.EUWest, carrier.Hang)
	c.setFault(carrier.USEast, carrier.Error)
	c.awaitAll(euWest, breaker.Open, breaker.HalfOpen)
	c.awaitAll(usEast, breaker.Open, breaker.HalfOpen)
	for _, p := range c.running() {
		p.mu.Lock()
		for _, e := range p.transitions {
			assert.Contains(t, []breaker.Key{euWest, usEast}, e.Key)
		}
		p.mu.Unlock()
	}
	repaired := c.setFault(carrier.EUWest, carrier.Healthy)
	c.setFault(carrier.USEast, carrier.Healthy)
	c.awaitAny(euWest, breaker.Closed, repaired)
	c.awaitAll(usEast, breaker.Closed)
	stop()
	c.assertRecovered(euWest, 1)
	c.assertRecovered(usEast, 1)
}

// Other workers execute the tasks of a worker that alone cannot reach the carrier. No run
// is refused.
func TestOtherWorkersExecuteTheTasksOfAFailingWorker(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	failing := c.startWorker("http://carrier.invalid")
	stop := c.startCustomers("EU")
	require.Eventually(t, func() bool {
		_, transitions := failing.state(euWest)
		return len(transitions) > 0 && transitions[0].To == breaker.Open
	}, waitTimeout, 50*time.Millisecond)
	time.Sleep(10 * time.Second) // the failing worker is quarantined
	stop()
	for _, o := range c.outcomes {
		assert.Zero(t, o.Unavailable, "%+v", o)
		assert.False(t, o.Empty || o.Text == "", "%+v", o)
	}
	t.Logf("%d tickets answered", len(c.outcomes))
	for _, p := range c.running() {
		if p != failing {
			_, transitions := p.state(euWest)
			assert.Empty(t, transitions, "no other breaker opens")
		}
	}
}
