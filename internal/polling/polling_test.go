package polling_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/internal/polling"
)

// poller uses the slots of a worker like the SDK.
type poller struct {
	t        *testing.T
	gate     *polling.Gate
	supplier worker.SlotSupplier
}

// newPoller returns the poller of a worker with this number of slots. Time is that of the
// synctest bubble, and the test fails if a goroutine is left.
func newPoller(t *testing.T, slots int) *poller {
	gate := &polling.Gate{}
	o := worker.Options{MaxConcurrentActivityExecutionSize: slots}
	polling.Configure(&o, gate)
	return &poller{t, gate, o.Tuner.GetActivityTaskSlotSupplier()}
}

// reservation is a call of ReserveSlot.
type reservation struct {
	permit *worker.SlotPermit
	err    error
	ended  atomic.Bool
}

func (r *reservation) done() bool { return r.ended.Load() }

// reserve calls ReserveSlot, and returns when that has ended or waits.
func (p *poller) reserve(ctx context.Context) *reservation {
	r := &reservation{}
	go func() {
		r.permit, r.err = p.supplier.ReserveSlot(ctx, nil)
		r.ended.Store(true)
	}()
	synctest.Wait()
	return r
}

// poll begins a poll, which must not wait.
func (p *poller) poll() *worker.SlotPermit {
	p.t.Helper()
	r := p.reserve(p.t.Context())
	require.True(p.t, r.done(), "a slot at once")
	require.NoError(p.t, r.err)
	return r.permit
}

// used ends a poll that brought a task.
func (p *poller) used(permit *worker.SlotPermit) {
	p.supplier.MarkSlotUsed(used{permit: permit})
	synctest.Wait()
}

// released ends a task, or a poll without a task.
func (p *poller) released(permit *worker.SlotPermit) {
	p.supplier.ReleaseSlot(released{permit: permit})
	synctest.Wait()
}

// failFast is a task that ends at once.
func (p *poller) failFast(permit *worker.SlotPermit) {
	p.used(permit)
	p.released(permit)
}

func (p *poller) slow(slow bool) {
	p.gate.Set(slow)
	synctest.Wait()
}

// sleep advances the time and lets waiting goroutines continue.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

type used struct {
	worker.SlotMarkUsedInfo
	permit *worker.SlotPermit
}

func (u used) Permit() *worker.SlotPermit { return u.permit }

type released struct {
	worker.SlotReleaseInfo
	permit *worker.SlotPermit
}

func (r released) Permit() *worker.SlotPermit { return r.permit }

// shortest and longest are the limits of the pause after a poll.
const (
	shortest = 750 * time.Millisecond
	longest  = 1250 * time.Millisecond
)

func TestFast_AllSlotsCanBeUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 3)
		first := p.poll()
		p.poll()
		assert.Equal(t, 3, p.supplier.MaxSlots())
		eager := p.supplier.TryReserveSlot(nil)
		assert.NotNil(t, eager)
		assert.Nil(t, p.supplier.TryReserveSlot(nil), "all slots are used")
		r := p.reserve(t.Context())
		assert.False(t, r.done(), "all slots are used")
		p.failFast(first)
		assert.True(t, r.done())
	})
}

func TestSlow_OnePollAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 5)
		p.slow(true)
		first := p.poll()
		second, third := p.reserve(t.Context()), p.reserve(t.Context())
		sleep(time.Minute)
		assert.False(t, second.done() || third.done(), "the first is still outstanding")

		p.used(first)
		assert.False(t, second.done() || third.done(), "the pause")
		sleep(shortest - time.Millisecond)
		assert.False(t, second.done() || third.done(), "the pause")
		sleep(longest - shortest + time.Millisecond)
		assert.True(t, second.done() != third.done(), "one of the two; the first task still runs")

		next := second
		if third.done() {
			next = third
		}
		p.released(next.permit)
		sleep(longest)
		assert.True(t, second.done() && third.done(), "a poll that brought no task has ended as well")
	})
}

// With enough pollers, a worker whose tasks fail at once takes one task per pause.
func TestSlow_TakesATaskASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 100)
		p.slow(true)
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		taken := 0
		var pollers sync.WaitGroup
		for range 20 {
			pollers.Go(func() {
				for {
					permit, err := p.supplier.ReserveSlot(ctx, nil)
					if err != nil {
						return
					}
					p.supplier.MarkSlotUsed(used{permit: permit})
					p.supplier.ReleaseSlot(released{permit: permit})
					mu.Lock()
					taken++
					mu.Unlock()
				}
			})
		}
		sleep(100 * time.Second)
		stop()
		pollers.Wait()
		assert.InDelta(t, 100, taken, 25)
	})
}

func TestSlow_WaitsForEarlierPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 5)
		first, second := p.poll(), p.poll()
		p.slow(true)
		r := p.reserve(t.Context())
		p.failFast(first)
		sleep(time.Minute)
		assert.False(t, r.done(), "the second is still outstanding")
		p.failFast(second)
		sleep(longest)
		assert.True(t, r.done())
	})
}

// Reservations that wait when polling becomes slow get a slot, but poll one at a time.
func TestSlow_LimitsWaitingReservations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 2)
		first, second := p.poll(), p.poll()
		p.used(first)
		p.used(second)
		waiting := []*reservation{p.reserve(t.Context()), p.reserve(t.Context())}
		p.slow(true)
		p.released(first)
		p.released(second)
		require.True(t, waiting[0].done())
		sleep(time.Minute)
		assert.False(t, waiting[1].done())
		p.failFast(waiting[0].permit)
		sleep(longest)
		assert.True(t, waiting[1].done())
	})
}

// One reservation has a slot and waits to poll. Another has the turn and waits for a slot. The
// first one must continue.
func TestSlow_HasNoDeadlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 1)
		first := p.poll()
		p.used(first)
		early := p.reserve(t.Context())
		p.slow(true)
		late := p.reserve(t.Context())
		sleep(time.Minute)
		p.released(first)
		require.True(t, early.done())
		p.failFast(early.permit)
		sleep(longest)
		assert.True(t, late.done())
	})
}

// Others may share the slots. A slow worker waits for one slot only.
func TestSlow_WaitsForOneSlotAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, err := worker.NewFixedSizeSlotSupplier(2)
		require.NoError(t, err)
		own, err := worker.NewCompositeTuner(worker.CompositeTunerOptions{ActivitySlotSupplier: shared})
		require.NoError(t, err)
		gate, o := &polling.Gate{}, worker.Options{Tuner: own}
		polling.Configure(&o, gate)
		p := &poller{t, gate, o.Tuner.GetActivityTaskSlotSupplier()}
		first, second := p.poll(), p.poll()
		p.used(first)
		p.used(second)
		p.slow(true)
		waiting := []*reservation{p.reserve(t.Context()), p.reserve(t.Context())}
		p.released(first)
		p.released(second)
		assert.True(t, waiting[0].done() != waiting[1].done())
		assert.NotNil(t, shared.TryReserveSlot(nil), "the other slot is free for others")
		p.slow(false)
		assert.False(t, waiting[0].done() && waiting[1].done())
		shared.ReleaseSlot(released{})
		synctest.Wait()
		assert.True(t, waiting[0].done() && waiting[1].done())
	})
}

func TestSlow_EndsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 5)
		p.slow(true)
		p.failFast(p.poll())
		pausing := p.reserve(t.Context())
		assert.False(t, pausing.done())
		p.slow(false)
		assert.True(t, pausing.done(), "during a pause")
		assert.NotNil(t, p.poll(), "no pause follows")
		assert.NotNil(t, p.supplier.TryReserveSlot(nil))

		p.slow(true)
		behind := p.reserve(t.Context())
		assert.False(t, behind.done())
		p.slow(false)
		assert.True(t, behind.done(), "behind outstanding polls")
	})
}

func TestSlow_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 5)
		p.slow(true)
		first := p.poll()
		ctx, stop := context.WithCancel(t.Context())
		r := p.reserve(ctx)
		assert.False(t, r.done())
		stop()
		synctest.Wait()
		assert.ErrorIs(t, r.err, context.Canceled)
		assert.Nil(t, r.permit)

		p.released(first)
		sleep(longest)
		p.poll()
	})
}

// The SDK releases a slot that is already reserved.
func TestSlow_EndsWithItsContextWhileHoldingASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 2)
		first, second := p.poll(), p.poll()
		p.used(first)
		ctx, stop := context.WithCancel(t.Context())
		holding := p.reserve(ctx)
		p.slow(true)
		p.released(first)
		assert.False(t, holding.done(), "the second is outstanding")
		stop()
		synctest.Wait()
		require.NotNil(t, holding.permit)
		p.released(holding.permit)
		p.failFast(second)
		sleep(longest)
		p.poll()
	})
}

// A reservation that holds the turn releases it.
func TestSlow_EndsWithItsContextWhileHoldingTheTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 1)
		p.slow(true)
		running := p.poll()
		p.used(running)
		sleep(longest)
		ctx, stop := context.WithCancel(t.Context())
		first, second := p.reserve(ctx), p.reserve(t.Context())
		assert.False(t, first.done() || second.done(), "no slot is free")
		stop()
		synctest.Wait()
		assert.ErrorIs(t, first.err, context.Canceled)
		p.released(running)
		assert.True(t, second.done())
	})
}

func TestSlow_RefusesEagerActivities(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 5)
		p.slow(true)
		assert.Nil(t, p.supplier.TryReserveSlot(nil))
		p.slow(false)
		eager := p.supplier.TryReserveSlot(nil)
		require.NotNil(t, eager)
		p.slow(true)
		p.poll() // An eager task is not a poll, so nothing waits for it.
		p.failFast(eager)
	})
}

// failing is a user's supplier that returns an error.
type failing struct {
	worker.SlotSupplier
	err error
}

func (f failing) ReserveSlot(context.Context, worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	return nil, f.err
}

func TestSlow_ReturnsErrors(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]error{"an error": errors.New("no slots"), "neither slot nor error": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := &polling.Gate{}
				gate.Set(true)
				own, err := worker.NewCompositeTuner(worker.CompositeTunerOptions{ActivitySlotSupplier: failing{err: broken}})
				require.NoError(t, err)
				o := worker.Options{Tuner: own}
				polling.Configure(&o, gate)
				p := &poller{t, gate, o.Tuner.GetActivityTaskSlotSupplier()}
				for range 3 {
					r := p.reserve(t.Context())
					assert.True(t, r.done())
					assert.Equal(t, broken, r.err)
					assert.Nil(t, r.permit)
				}
			})
		})
	}
}

// This test is for the race detector.
func TestGate_ChangesUnderLoad(t *testing.T) {
	t.Parallel()
	gate := &polling.Gate{}
	o := worker.Options{MaxConcurrentActivityExecutionSize: 3}
	polling.Configure(&o, gate)
	supplier := o.Tuner.GetActivityTaskSlotSupplier()
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for {
				permit, err := supplier.ReserveSlot(ctx, nil)
				if err != nil {
					return
				}
				supplier.MarkSlotUsed(used{permit: permit})
				supplier.ReleaseSlot(released{permit: permit})
				if eager := supplier.TryReserveSlot(nil); eager != nil {
					supplier.ReleaseSlot(released{permit: eager})
				}
			}
		})
	}
	for slow := true; ctx.Err() == nil; slow = !slow {
		gate.Set(slow)
		time.Sleep(time.Millisecond)
	}
	all.Wait()
	gate.Set(false)
	for range 3 {
		permit, err := supplier.ReserveSlot(t.Context(), nil)
		require.NoError(t, err)
		require.NotNil(t, permit, "no slot is lost")
	}
	assert.Nil(t, supplier.TryReserveSlot(nil), "no slot is added")
}
