package bench

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	failsafe "github.com/failsafe-go/failsafe-go/circuitbreaker"
	aegis "github.com/go-kratos/aegis/circuitbreaker"
	"github.com/go-kratos/aegis/circuitbreaker/sre"
	rubyist "github.com/rubyist/circuitbreaker"
	"github.com/sony/gobreaker/v2"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// call makes one call. If it is admitted, its outcome is recorded.
type call func(failed bool) (admitted bool)

// system is one circuit breaker library. closed returns a breaker that stays closed
// during the benchmark, open one that stays open.
type system struct {
	name         string
	closed, open func(key int) call
}

const long = time.Hour

var errFailed = errors.New("failed")

var systems = []system{
	{"toolbreaker", toolbreakerClosed, toolbreakerOpen},
	{"gobreaker", gobreakerClosed(gobreaker.Settings{}), gobreakerOpen},
	// With buckets, gobreaker's window is a rolling one too.
	{"gobreaker-rolling", gobreakerClosed(gobreaker.Settings{Interval: time.Minute, BucketPeriod: time.Second}), nil},
	{"failsafe", failsafeClosed, failsafeOpen},
	{"rubyist", rubyistClosed, rubyistOpen},
	{"aegis", aegisClosed, nil},
	{"floor", clockFloor, loadFloor},
}

func toolbreakerClosed(key int) call {
	b := breaker.NewRegistry(breaker.SystemClock(), nil).
		Get(breaker.Key{Dependency: "bench", Region: fmt.Sprint(key)}, breaker.Config{})
	return func(failed bool) bool {
		permit, refusal := b.Allow(breaker.Call{Attempt: 1})
		if refusal != nil {
			return false
		}
		if failed {
			permit.Done(breaker.Failure)
		} else {
			permit.Done(breaker.Success)
		}
		return true
	}
}

func toolbreakerOpen(key int) call {
	b := breaker.NewRegistry(breaker.SystemClock(), nil).
		Get(breaker.Key{Dependency: "bench", Region: fmt.Sprint(key)}, breaker.Config{Cooldown: long})
	for range 10 {
		permit, _ := b.Allow(breaker.Call{})
		permit.Done(breaker.Failure)
	}
	return func(bool) bool {
		permit, refusal := b.Allow(breaker.Call{Attempt: 1})
		if refusal != nil {
			return false
		}
		permit.Done(breaker.Success)
		return true
	}
}

func gobreakerClosed(settings gobreaker.Settings) func(int) call {
	return func(int) call {
		settings.ReadyToTrip = func(c gobreaker.Counts) bool {
			return c.Requests >= 10 && 2*c.TotalFailures > c.Requests
		}
		b := gobreaker.NewCircuitBreaker[any](settings)
		succeed := func() (any, error) { return nil, nil }
		fail := func() (any, error) { return nil, errFailed }
		return func(failed bool) bool {
			run := succeed
			if failed {
				run = fail
			}
			_, err := b.Execute(run)
			return err != gobreaker.ErrOpenState
		}
	}
}

func gobreakerOpen(int) call {
	b := gobreaker.NewCircuitBreaker[any](gobreaker.Settings{Timeout: long})
	for range 10 {
		_, _ = b.Execute(func() (any, error) { return nil, errFailed })
	}
	succeed := func() (any, error) { return nil, nil }
	return func(bool) bool {
		_, err := b.Execute(succeed)
		return err != gobreaker.ErrOpenState
	}
}

func failsafeClosed(int) call {
	b := failsafe.NewBuilder[any]().WithFailureRateThreshold(0.5, 10, time.Minute).Build()
	return func(failed bool) bool {
		if !b.TryAcquirePermit() {
			return false
		}
		if failed {
			b.RecordFailure()
		} else {
			b.RecordSuccess()
		}
		return true
	}
}

func failsafeOpen(int) call {
	b := failsafe.NewBuilder[any]().WithDelay(long).Build()
	b.Open()
	return func(bool) bool { return b.TryAcquirePermit() }
}

func rubyistClosed(int) call {
	b := rubyist.NewRateBreaker(0.5, 10)
	return func(failed bool) bool {
		if !b.Ready() {
			return false
		}
		if failed {
			b.Fail()
		} else {
			b.Success()
		}
		return true
	}
}

func rubyistOpen(int) call {
	b := rubyist.NewRateBreaker(0.5, 10)
	b.Break()
	return func(bool) bool { return b.Ready() }
}

// aegis refuses calls at random and has no open state.
func aegisClosed(int) call {
	b := sre.NewBreaker(sre.WithWindow(time.Minute), sre.WithBucket(60))
	return func(failed bool) bool {
		if b.Allow() == aegis.ErrNotAllowed {
			return false
		}
		if failed {
			b.MarkFailed()
		} else {
			b.MarkSuccess()
		}
		return true
	}
}

var began = time.Now()

// clockFloor is the minimum cost of measuring a call's latency: two reads of the
// monotonic clock.
func clockFloor(int) call {
	return func(bool) bool {
		begun := time.Since(began)
		return time.Since(began) >= begun
	}
}

// loadFloor is the minimum cost of reading a published decision.
func loadFloor(int) call {
	var open atomic.Bool
	return func(bool) bool { return open.Load() }
}

// The benchmarks need each breaker to be in the named state.
func TestSystems_AreInTheMeasuredState(t *testing.T) {
	for _, s := range systems {
		t.Run(s.name, func(t *testing.T) {
			closed := s.closed(0)
			for i := range 1000 {
				if !closed(i%100 == 99) {
					t.Fatal("a closed breaker refused")
				}
			}
			if s.open == nil {
				return
			}
			open := s.open(0)
			for range 1000 {
				if open(false) {
					t.Fatal("an open breaker admitted")
				}
			}
		})
	}
}
