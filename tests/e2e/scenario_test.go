package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/activities/orders"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/worker/agent"
	"github.com/toolbreaker/toolbreaker/worker/app"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

// The keys of the example. The order database has one region: the worker's own.
var (
	euWest  = breaker.Key{Dependency: carriertools.Dependency, Region: carriertools.RegionEUWest}
	usEast  = breaker.Key{Dependency: carriertools.Dependency, Region: carriertools.RegionUSEast}
	orderDB = breaker.Key{Dependency: orders.Dependency, Region: carriertools.RegionEUWest}
)

const (
	// speed is the speed of most scenarios.
	speed = 4
	// latency is the latency threshold in scenario time: six times the duration of a healthy
	// call, and shorter than a call to a slow carrier. At speed 4, only a call that waits
	// more than two seconds for a processor is slow without a fault.
	latency = 12 * time.Second
	// ticketInterval is the time between two tickets, in scenario time.
	ticketInterval = 2500 * time.Millisecond
	// maxOpenTickets limits the unanswered tickets of one stream. On a slow machine, fewer
	// tickets are started.
	maxOpenTickets = 20
	// arrivalGrace is how long after an opening a call may still arrive that was allowed
	// before, in real time. Every breaker of a scenario stays open for at least four
	// seconds.
	arrivalGrace = time.Second
)

// scenario is an app with its own namespace and carrier, and the transitions of its
// worker's breakers. Scenario time is real time multiplied by the app's speed.
type scenario struct {
	*app.App
	t           *testing.T
	transitions *transitions

	mu      sync.Mutex
	tickets int
}

// newScenario starts an app. It stops when the test ends.
func newScenario(t *testing.T, speed float64) *scenario {
	t.Helper()
	a, err := app.Start(t.Context(), app.Options{
		Speed: speed, Latency: latency,
		Temporal: client.Options{HostPort: sharedServer, Namespace: newSearchableNamespace(t), ConnectionOptions: uncompressed},
	})
	require.NoError(t, err)
	t.Cleanup(a.Stop)
	return &scenario{App: a, t: t, transitions: newTransitions()}
}

// startWorker starts a worker with agent, tools and breakers. It stops when the test ends.
func (s *scenario) startWorker() *app.Worker {
	s.t.Helper()
	w, err := s.StartWorker(app.WorkerOptions{OnTransition: s.transitions.record})
	require.NoError(s.t, err)
	s.t.Cleanup(w.Stop)
	return w
}

// setFault sets a region's fault, and returns the time before.
func (s *scenario) setFault(region string, f carrier.Fault) time.Time {
	s.t.Helper()
	now := time.Now()
	require.NoError(s.t, s.Carrier.SetFault(region, f))
	return now
}

// repair makes a region healthy, and returns the time before.
func (s *scenario) repair(region string) time.Time {
	s.t.Helper()
	return s.setFault(region, carrier.Fault{Kind: carrier.Healthy})
}

// scenarioSeconds converts a duration of real time to seconds of scenario time.
func (s *scenario) scenarioSeconds(d time.Duration) float64 { return d.Seconds() * s.Options.Speed }

// run is a completed run for one ticket.
type run struct {
	started time.Time
	outcome agent.Outcome
}

// ask runs the agent for one ticket about an order in the region of the prefix, "EU" or
// "US".
func (s *scenario) ask(ctx context.Context, prefix string) (run, error) {
	s.mu.Lock()
	s.tickets++
	n := s.tickets
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	r := run{started: time.Now()}
	var err error
	r.outcome, err = app.Ask(ctx, s.Client, agent.Ticket{
		ID: fmt.Sprint(n), OrderID: fmt.Sprintf("%s-%04d", prefix, n),
		Question: "Where is my parcel?", Return: true, Speed: s.Options.Speed,
	})
	return r, err
}

// calls returns the calls of one kind that reached a region.
func (s *scenario) calls(region string, kind carrier.CallKind) []carrier.Call {
	return slices.DeleteFunc(s.Carrier.Calls(), func(c carrier.Call) bool {
		return c.Region != region || c.Kind != kind
	})
}

// callsWhileBlocked returns customers' calls that reached a key's region more than
// arrivalGrace after its breaker began to refuse calls.
func (s *scenario) callsWhileBlocked(key breaker.Key) []carrier.Call {
	transitions := s.transitions.of(key)
	return slices.DeleteFunc(s.calls(key.Region, carrier.Customer), func(c carrier.Call) bool {
		since, blocked := blockedSince(transitions, c.At)
		return !blocked || c.At.Sub(since) <= arrivalGrace
	})
}

// callsBetween returns the calls that arrived at from or later, and before to.
func callsBetween(calls []carrier.Call, from, to time.Time) []carrier.Call {
	return slices.DeleteFunc(calls, func(c carrier.Call) bool {
		return c.At.Before(from) || !c.At.Before(to)
	})
}

// customers open tickets at a constant rate.
type customers struct {
	t *testing.T
	// stop ends the tickets and waits for the runs that have started.
	stop func()

	mu   sync.Mutex
	runs []run
	errs []error
	next chan struct{} // closed and replaced when a run ends
}

// startCustomers starts a ticket per interval of scenario time, about orders in the region
// of the prefix, until finish is called or the test ends.
func (s *scenario) startCustomers(prefix string, interval time.Duration) *customers {
	c := &customers{t: s.t, next: make(chan struct{})}
	quit, stopped := make(chan struct{}), make(chan struct{})
	ctx := context.WithoutCancel(s.t.Context()) // stop waits for started runs
	go func() {
		defer close(stopped)
		slots := make(chan struct{}, maxOpenTickets)
		var runs sync.WaitGroup
		defer runs.Wait()
		ticker := time.NewTicker(s.Scaled(interval))
		defer ticker.Stop()
		for {
			select {
			case slots <- struct{}{}:
				runs.Go(func() {
					c.record(s.ask(ctx, prefix))
					<-slots
				})
			default:
			}
			select {
			case <-quit:
				return
			case <-ticker.C:
			}
		}
	}()
	c.stop = sync.OnceFunc(func() {
		close(quit)
		<-stopped
	})
	s.t.Cleanup(c.stop)
	return c
}

func (c *customers) record(r run, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.errs = append(c.errs, err)
	} else {
		c.runs = append(c.runs, r)
	}
	close(c.next)
	c.next = make(chan struct{})
}

// await waits until n runs that started at from or later have ended, and returns them.
func (c *customers) await(n int, from time.Time) []run {
	c.t.Helper()
	deadline := time.After(waitTimeout)
	for {
		c.mu.Lock()
		runs, next := startedSince(c.runs, from), c.next
		c.mu.Unlock()
		if len(runs) >= n {
			return runs
		}
		select {
		case <-next:
		case <-deadline:
			require.FailNow(c.t, "too few runs ended", "%d of %d", len(runs), n)
		}
	}
}

// finish ends the tickets and returns all runs. No run may have failed.
func (c *customers) finish() []run {
	c.t.Helper()
	c.stop()
	require.Empty(c.t, c.errs, "no run fails")
	return c.runs
}

func startedSince(runs []run, from time.Time) []run {
	return slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return r.started.Before(from) })
}

func medianSeconds(runs []run) float64 {
	var seconds []float64
	for _, r := range runs {
		seconds = append(seconds, r.outcome.Seconds)
	}
	slices.Sort(seconds)
	return seconds[len(seconds)/2]
}

func assertComplete(t *testing.T, o agent.Outcome) {
	t.Helper()
	assert.False(t, o.Partial || o.Empty || o.Escalation != "" || o.Unavailable > 0, "the answer is complete: %+v", o)
}

func assertPartial(t *testing.T, o agent.Outcome) {
	t.Helper()
	assert.True(t, o.Partial && o.Text != "", "the answer is partial: %+v", o)
	assert.Contains(t, o.Escalation, "Proceed without this information if you can, or escalate with what you have.")
	assert.Equal(t, 1, o.Unavailable, "the model does not repeat a refused call")
}
