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
	// speed is that of most stories.
	speed = 4
	// latency is a story's latency threshold, in the story's time: six times what a
	// healthy call takes, and less than what one to a slow carrier takes. At speed 4 a
	// call has to wait for a processor for more than two seconds to look slow.
	latency = 12 * time.Second
	// ticketEvery is how often a customer writes, in the story's time.
	ticketEvery = 2500 * time.Millisecond
	// ticketsAtOnce is how many tickets of one stream are worked on at most. A machine
	// that cannot keep up is asked less often; it does not fall behind.
	ticketsAtOnce = 20
	// wireGrace is how long after an opening a call may still arrive that was let
	// pass before it, in real time: it waits for a processor and a connection. No
	// breaker of a story stays open for less than four seconds.
	wireGrace = time.Second
)

// story is an app with a namespace and a carrier of its own, and the edges of every
// breaker of its worker.
type story struct {
	*app.App
	t     *testing.T
	edges *edges

	mu      sync.Mutex
	tickets int
}

// newStory starts a story's app until the test ends, at a speed.
func newStory(t *testing.T, speed float64) *story {
	t.Helper()
	a, err := app.Start(t.Context(), app.Options{
		Speed: speed, Latency: latency,
		Temporal: client.Options{HostPort: sharedServer, Namespace: newListedNamespace(t), ConnectionOptions: uncompressed},
	})
	require.NoError(t, err)
	t.Cleanup(a.Stop)
	return &story{App: a, t: t, edges: newEdges()}
}

// startWorker starts a worker with agent, tools and breaker, until the test ends.
func (s *story) startWorker() *app.Worker {
	s.t.Helper()
	w, err := s.StartWorker(app.WorkerOptions{OnTransition: s.edges.record})
	require.NoError(s.t, err)
	s.t.Cleanup(w.Stop)
	return w
}

// breakCarrier sets what is wrong with a region, and gives the moment.
func (s *story) breakCarrier(region string, f carrier.Fault) time.Time {
	s.t.Helper()
	now := time.Now()
	require.NoError(s.t, s.Carrier.SetFault(region, f))
	return now
}

// repair makes a region healthy again, and gives the moment.
func (s *story) repair(region string) time.Time {
	s.t.Helper()
	return s.breakCarrier(region, carrier.Fault{Kind: carrier.Healthy})
}

// storySeconds is a span of the clock in the story's seconds.
func (s *story) storySeconds(d time.Duration) float64 { return d.Seconds() * s.Options.Speed }

// run is a customer's ticket, answered.
type run struct {
	began   time.Time
	outcome agent.Outcome
}

// ask has one ticket answered, about an order that travels through the region
// named by prefix: "EU" or "US".
func (s *story) ask(ctx context.Context, prefix string) (run, error) {
	s.mu.Lock()
	s.tickets++
	n := s.tickets
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := run{began: time.Now()}
	var err error
	r.outcome, err = app.Ask(ctx, s.Client, agent.Ticket{
		ID: fmt.Sprint(n), OrderID: fmt.Sprintf("%s-%04d", prefix, n),
		Question: "Where is my parcel?", Return: true, Speed: s.Options.Speed,
	})
	return r, err
}

// calls are the carrier's own record of the calls of a kind to a region.
func (s *story) calls(region string, kind carrier.CallKind) []carrier.Call {
	return slices.DeleteFunc(s.Carrier.Calls(), func(c carrier.Call) bool {
		return c.Region != region || c.Kind != kind
	})
}

// callsWhileBlocked are customers' calls that reached a key's region although its
// breaker was open or half-open, and had been for the wireGrace.
func (s *story) callsWhileBlocked(key breaker.Key) []carrier.Call {
	edges := s.edges.of(key)
	return slices.DeleteFunc(s.calls(key.Region, carrier.Customer), func(c carrier.Call) bool {
		since, blocked := blockedSince(edges, c.At)
		return !blocked || c.At.Sub(since) <= wireGrace
	})
}

// arrived are the calls that reached the carrier from one moment to another.
func arrived(calls []carrier.Call, from, to time.Time) []carrier.Call {
	return slices.DeleteFunc(calls, func(c carrier.Call) bool {
		return c.At.Before(from) || !c.At.Before(to)
	})
}

// customers write tickets at a steady pace.
type customers struct {
	t *testing.T
	// stop ends their writing and waits for the runs under way.
	stop func()

	mu   sync.Mutex
	runs []run
	errs []error
	next chan struct{} // closed and replaced when a run ends
}

// customersWrite lets customers write about orders of a region, one every so
// often in the story's time, until they leave or the test ends.
func (s *story) customersWrite(prefix string, every time.Duration) *customers {
	c := &customers{t: s.t, next: make(chan struct{})}
	quit, gone := make(chan struct{}), make(chan struct{})
	ctx := context.WithoutCancel(s.t.Context()) // runs under way are waited for
	go func() {
		defer close(gone)
		slots := make(chan struct{}, ticketsAtOnce)
		var runs sync.WaitGroup
		defer runs.Wait()
		ticker := time.NewTicker(s.Scaled(every))
		defer ticker.Stop()
		for {
			select {
			case slots <- struct{}{}:
				runs.Go(func() {
					c.answered(s.ask(ctx, prefix))
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
		<-gone
	})
	s.t.Cleanup(c.stop)
	return c
}

func (c *customers) answered(r run, err error) {
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

// await waits until n runs begun at or after a moment have ended, and gives them.
func (c *customers) await(n int, from time.Time) []run {
	c.t.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		runs, next := begunFrom(c.runs, from), c.next
		c.mu.Unlock()
		if len(runs) >= n {
			return runs
		}
		select {
		case <-next:
		case <-deadline:
			require.FailNow(c.t, "too few runs have ended", "%d of %d", len(runs), n)
		}
	}
}

// leave ends the customers' writing and gives every run; none has failed.
func (c *customers) leave() []run {
	c.t.Helper()
	c.stop()
	require.Empty(c.t, c.errs, "every run ends with an answer")
	return c.runs
}

func begunFrom(runs []run, from time.Time) []run {
	return slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return r.began.Before(from) })
}

func medianSeconds(runs []run) float64 {
	var seconds []float64
	for _, r := range runs {
		seconds = append(seconds, r.outcome.Seconds)
	}
	slices.Sort(seconds)
	return seconds[len(seconds)/2]
}

func assertWhole(t *testing.T, o agent.Outcome) {
	t.Helper()
	assert.False(t, o.Partial || o.Empty || o.Escalation != "" || o.Unavailable > 0, "a whole answer: %+v", o)
}

func assertPartial(t *testing.T, o agent.Outcome) {
	t.Helper()
	assert.True(t, o.Partial && o.Text != "", "a partial answer: %+v", o)
	assert.Contains(t, o.Escalation, "Proceed without this information if you can, or escalate with what you have.")
	assert.Equal(t, 1, o.Unavailable, "the model does not call again what it was told is down")
}
