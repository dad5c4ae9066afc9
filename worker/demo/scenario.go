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
	// region is the region that fails.
	region = "eu-west"
	// ticketInterval is the time between two tickets, in simulated time.
	ticketInterval = 1500 * time.Millisecond
)

// scenario is a running demo: its traffic, and what it records. Simulated time is
// real time multiplied by the app's speed.
type scenario struct {
	app         *app.App
	failedCalls *failedCallTimer
	started     time.Time

	mu sync.Mutex
	// runs are the runs that have ended, in no order.
	runs []run
	// running, done and tickets are counts for the display.
	running, done, tickets int
	// transitions are those of the carrier's breaker in the failing region, in order.
	transitions []breaker.Transition
	// changed is closed and replaced at each transition.
	changed chan struct{}
	err     error
}

type run struct {
	started time.Time
	seconds float64
	outcome agent.Outcome
}

func newScenario(a *app.App) *scenario {
	return &scenario{app: a, failedCalls: &failedCallTimer{}, started: time.Now(), changed: make(chan struct{})}
}

// seconds converts a duration of real time to simulated seconds.
func (s *scenario) seconds(d time.Duration) float64 { return d.Seconds() * s.app.Options.Speed }

// at converts a time to simulated seconds since the start.
func (s *scenario) at(t time.Time) float64 { return s.seconds(t.Sub(s.started)) }

// traffic starts a run per interval until stop is called. stop waits for all runs
// to end.
func (s *scenario) traffic(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	var runs sync.WaitGroup
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(s.app.Scaled(ticketInterval))
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

// run executes the run of one ticket.
func (s *scenario) run(ctx context.Context) {
	s.mu.Lock()
	s.tickets++
	n := s.tickets
	s.running++
	s.mu.Unlock()

	r := run{started: time.Now()}
	// The limit is far above the duration of any run.
	ctx, cancel := context.WithTimeout(ctx, s.app.Scaled(time.Hour))
	defer cancel()
	outcome, err := app.Ask(ctx, s.app.Client, agent.Ticket{
		ID: fmt.Sprintf("%d-%04d", s.started.Unix(), n), OrderID: fmt.Sprintf("EU-%04d", n),
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

// onTransition records the transitions of the carrier's breaker in the failing region.
func (s *scenario) onTransition(t breaker.Transition) {
	if t.Key != carrierKey {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transitions = append(s.transitions, t)
	close(s.changed)
	s.changed = make(chan struct{})
}

// await returns the first transition to a state at or after a time. It fails when
// the limit, in simulated time, has passed.
func (s *scenario) await(ctx context.Context, to breaker.State, after time.Time, limit time.Duration) (breaker.Transition, error) {
	deadline := time.NewTimer(s.app.Scaled(limit))
	defer deadline.Stop()
	for {
		s.mu.Lock()
		changed := s.changed
		for _, t := range s.transitions {
			if t.To == to && !t.At.Before(after) {
				s.mu.Unlock()
				return t, nil
			}
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-deadline.C:
			return breaker.Transition{}, fmt.Errorf("the breaker %s did not become %s within %v of simulated time", carrierKey, to, limit)
		case <-ctx.Done():
			return breaker.Transition{}, ctx.Err()
		}
	}
}

// refusing tells whether the breaker was open or half-open at a time, and had been
// so for at least grace.
func (s *scenario) refusing(at time.Time, grace time.Duration) bool {
	refusing := false
	var since time.Time
	for _, t := range s.transitions {
		if t.At.After(at) {
			break
		}
		refuses := t.To == breaker.Open || t.To == breaker.HalfOpen
		if refuses && !refusing {
			since = t.At
		}
		refusing = refuses
	}
	return refusing && at.Sub(since) >= grace
}

// pause waits for d of simulated time.
func (s *scenario) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(s.app.Scaled(d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
