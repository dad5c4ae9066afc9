package breaker

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// parallel runs f in many goroutines, each with its own random numbers.
func parallel(n int, f func(worker int, random *rand.Rand)) {
	var wg sync.WaitGroup
	for worker := range n {
		wg.Go(func() { f(worker, rand.New(rand.NewPCG(uint64(worker), 7))) })
	}
	wg.Wait()
}

// A closed breaker under many goroutines loses no call and counts none twice.
func TestStressClosed(t *testing.T) {
	const workers, each = 16, 20_000
	r := NewRegistry(SystemClock(), nil)
	b := r.Get(testKey, Config{Window: time.Hour, FailureRate: 0.999, MinSlow: 1 << 30, Latency: 10 * time.Millisecond})
	var failures, twice atomic.Int64
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				b.Snapshot()
				b.Tick()
			}
		}
	})
	parallel(workers, func(_ int, random *rand.Rand) {
		var held []*Permit
		for range each {
			p, refusal := b.Allow(Call{})
			if refusal != nil {
				t.Error("refused")
				return
			}
			held = append(held, &p)
			if len(held) < 1+random.IntN(8) {
				continue
			}
			p2 := held[0]
			held = held[1:]
			switch random.IntN(10) {
			case 0:
				failures.Add(1)
				p2.Done(Failure)
			case 1:
				p2.Done(Success)
				p2.Done(Failure)
				twice.Add(1)
			default:
				p2.Done(Success)
			}
		}
		for _, p := range held {
			p.Done(Success)
		}
	})
	close(stop)
	reading.Wait()
	s := b.Snapshot()
	require.Equal(t, workers*each, s.Evidence.Window.Samples)
	require.Equal(t, int64(workers*each), s.Counted)
	require.Equal(t, int(failures.Load()), s.Evidence.Window.Failures)
	require.Equal(t, twice.Load(), s.DoneTwice)
	require.Zero(t, s.InFlight)
	require.Zero(t, s.Evidence.Hung)
	require.Zero(t, s.Late)
}

// With everything happening at once, each admitted call is exactly once counted, late
// or uncounted, and each refused call is counted.
func TestStressEverything(t *testing.T) {
	const workers, each = 8, 20_000
	clock := &testClock{}
	r := NewRegistry(clock, nil)
	config := Config{Window: 2 * time.Second, Latency: 50 * time.Millisecond, Cooldown: 50 * time.Millisecond, RampStep: 50 * time.Millisecond, ToolLatency: map[string]time.Duration{"slow": time.Second}}
	b := r.Get(testKey, config)
	var counted, uncounted, refused, twice atomic.Int64
	stop := make(chan struct{})
	var meddling sync.WaitGroup
	meddle := func(f func(random *rand.Rand)) {
		meddling.Go(func() {
			random := rand.New(rand.NewPCG(99, 99))
			for {
				select {
				case <-stop:
					return
				default:
					f(random)
				}
			}
		})
	}
	meddle(func(random *rand.Rand) {
		clock.advance(time.Duration(random.IntN(20)) * time.Millisecond)
		r.Tick()
	})
	meddle(func(random *rand.Rand) {
		switch random.IntN(6) {
		case 0:
			b.Apply(Verdict{State: State(random.IntN(4)), Epoch: b.Snapshot().Epoch + 1, Share: 50, Next: clock.Now().Add(time.Second)})
		case 1:
			_ = b.Force(Force{State: ForcedClosed, By: "ann", Note: "stress", For: 100 * time.Millisecond})
		case 2:
			b.Release()
		case 3:
			c := config
			c.Latency = time.Duration(20+random.IntN(200)) * time.Millisecond
			c.Window = time.Duration(1+random.IntN(3)) * time.Second
			_ = b.Configure(c)
		case 4:
			b.Snapshot()
		case 5:
			b.HoldOff(10 * time.Millisecond)
		}
		// Without a pause few calls would end in the state in which they began, and little
		// would be counted.
		time.Sleep(100 * time.Microsecond)
	})
	parallel(workers, func(_ int, random *rand.Rand) {
		for range each {
			call := Call{Attempt: 1 + random.IntN(4)}
			if random.IntN(4) == 0 {
				call.Tool = "slow"
			}
			p, refusal := b.Allow(call)
			if refusal != nil {
				refused.Add(1)
				continue
			}
			if p.word == nil {
				uncounted.Add(1)
			} else {
				counted.Add(1)
			}
			outcome := Success
			if random.IntN(3) == 0 {
				outcome = Failure
			}
			p.Done(outcome)
			if random.IntN(50) == 0 {
				p.Done(Success)
				twice.Add(1)
			}
		}
	})
	close(stop)
	meddling.Wait()
	s := b.Snapshot()
	require.Equal(t, counted.Load(), s.Counted+s.Late, "each admitted call is counted or late")
	require.Equal(t, refused.Load(), s.Refused)
	require.Equal(t, twice.Load(), s.DoneTwice)
	require.Zero(t, s.InFlight)
	require.Zero(t, s.Abandoned)
	require.Equal(t, int64(workers*each), counted.Load()+uncounted.Load()+refused.Load())
	t.Logf("%d edges, %d counted, %d late, %d refused", s.Edges, s.Counted, s.Late, s.Refused)
}

// Keys are added and evicted while others are looked up.
func TestStressRegistry(t *testing.T) {
	r := NewRegistry(SystemClock(), nil)
	r.MaxKeys = 50
	parallel(8, func(worker int, random *rand.Rand) {
		for n := range 600 {
			b := r.Get(regionKey(random.IntN(200)), Config{})
			p, refusal := b.Allow(Call{})
			if refusal == nil {
				p.Done(Success)
			}
			if n%100 == 0 {
				r.Tick()
			}
			if len(r.All()) > 50 {
				t.Error("more keys than the bound")
			}
		}
	})
	require.Len(t, r.All(), 50)
	for _, b := range r.All() {
		found, ok := r.Find(b.Key())
		require.True(t, ok)
		require.Same(t, b, found)
		require.Zero(t, b.Snapshot().InFlight)
	}
}
