package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/worker/agent"
	"github.com/toolbreaker/toolbreaker/worker/app"
)

const (
	// region is the one that fails.
	region = "eu-west"
	// ticketEvery is how often a customer writes, in the story's time.
	ticketEvery = 1500 * time.Millisecond
)

// story is a demo under way. Its fields are safe to use as they say.
type story struct {
	app   *app.App
	meter *meter
	begun time.Time

	mu sync.Mutex
	// runs are those that have ended, in no order.
	runs []run
	// running, done and tickets count for the display.
	running, done, tickets int
	// edges are the carrier's breaker's in the failing region, in order.
	edges []breaker.Transition
	// edge is closed and replaced at each edge.
	edge chan struct{}
	err  error
}

type run struct {
	began   time.Time
	seconds float64
	outcome agent.Outcome
}

func newStory(a *app.App) *story {
	return &story{app: a, meter: &meter{}, begun: time.Now(), edge: make(chan struct{})}
}

// seconds is a span of the clock in the story's seconds.
func (s *story) seconds(d time.Duration) float64 { return d.Seconds() * s.app.Options.Speed }

// at is a moment in the story's seconds since it began.
func (s *story) at(t time.Time) float64 { return s.seconds(t.Sub(s.begun)) }

// traffic starts a run at every tick until stop is called, which waits for all
// of them to end.
func (s *story) traffic(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	var runs sync.WaitGroup
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(s.app.Scaled(ticketEvery))
		defer ticker.Stop()
		for {
			runs.Go(func() { s.run(context.WithoutCancel(ctx)) })
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return func() {
		cancel()
		<-stopped
		runs.Wait()
	}
}

// run takes one ticket from question to answer.
func (s *story) run(ctx context.Context) {
	s.mu.Lock()
	s.tickets++
	n := s.tickets
	s.running++
	s.mu.Unlock()

	r := run{began: time.Now()}
	// A run that has not ended after an hour of the story never will.
	ctx, cancel := context.WithTimeout(ctx, s.app.Scaled(time.Hour))
	defer cancel()
	outcome, err := app.Ask(ctx, s.app.Client, agent.Ticket{
		ID: fmt.Sprintf("%d-%04d", s.begun.Unix(), n), OrderID: fmt.Sprintf("EU-%04d", n),
		Question: "Where is my parcel?", Return: true, Speed: s.app.Options.Speed,
	})
	r.outcome = outcome
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.done++
	if err != nil {
		s.err = fmt.Errorf("ticket %d: %w", n, err)
		return
	}
	r.seconds = r.outcome.Seconds * s.app.Options.Speed
	s.runs = append(s.runs, r)
}

// transition takes the edges of the failing region's carrier breaker.
func (s *story) transition(t breaker.Transition) {
	if t.Key != carrierKey {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edges = append(s.edges, t)
	close(s.edge)
	s.edge = make(chan struct{})
}

// await gives the first edge to a state at or after a moment, or an error when
// the limit, in the story's time, has passed.
func (s *story) await(ctx context.Context, to breaker.State, after time.Time, limit time.Duration) (breaker.Transition, error) {
	deadline := time.NewTimer(s.app.Scaled(limit))
	defer deadline.Stop()
	for {
		s.mu.Lock()
		next := s.edge
		for _, t := range s.edges {
			if t.To == to && !t.At.Before(after) {
				s.mu.Unlock()
				return t, nil
			}
		}
		s.mu.Unlock()
		select {
		case <-next:
		case <-deadline.C:
			return breaker.Transition{}, fmt.Errorf("the breaker of %s was not %s within %v", carrierKey, to, limit)
		case <-ctx.Done():
			return breaker.Transition{}, ctx.Err()
		}
	}
}

// blocked tells whether the breaker was open or half-open at a moment, and had
// been for at least grace.
func (s *story) blocked(at time.Time, grace time.Duration) bool {
	blocked := false
	var since time.Time
	for _, t := range s.edges {
		if t.At.After(at) {
			break
		}
		refuses := t.To == breaker.Open || t.To == breaker.HalfOpen
		if refuses && !blocked {
			since = t.At
		}
		blocked = refuses
	}
	return blocked && at.Sub(since) >= grace
}

// pause waits for d of the story's time.
func (s *story) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(s.app.Scaled(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
