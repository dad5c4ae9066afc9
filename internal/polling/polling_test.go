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

// poller uses the slots of a worker as the SDK does.
type poller struct {
	t        *testing.T
	gate     *polling.Gate
	supplier worker.SlotSupplier
}

// newPoller is that of a worker with so many slots. The test runs on a clock of its
// own, and fails when a goroutine is left.
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

// reserve asks for a slot, and gives what has come of it by now.
func (p *poller) reserve(ctx context.Context) *reservation {
	r := &reservation{}
	go func() {
		r.permit, r.err = p.supplier.ReserveSlot(ctx, nil)
		r.ended.Store(true)
	}()
	synctest.Wait()
	return r
}

// poll begins a poll at once.
func (p *poller) poll() *worker.SlotPermit {
	p.t.Helper()
	r := p.reserve(p.t.Context())
	require.True(p.t, r.done(), "a slot at once")
	require.NoError(p.t, r.err)
	return r.permit
}

// used is a poll that brings a task.
func (p *poller) used(permit *worker.SlotPermit) {
	p.supplier.MarkSlotUsed(used{permit: permit})
	synctest.Wait()
}

// released is a task that ends, or a poll that brings none.
func (p *poller) released(permit *worker.SlotPermit) {
	p.supplier.ReleaseSlot(released{permit: permit})
	synctest.Wait()
}

// failFast is a task that ends as soon as it has come.
func (p *poller) failFast(permit *worker.SlotPermit) {
	p.used(permit)
	p.released(permit)
}

func (p *poller) slow(slow bool) {
	p.gate.Set(slow)
	synctest.Wait()
}

// sleep lets time pass, and whoever waits for it go on.
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

// The pause after a poll is jittered between these.
const (
	shortest = 750 * time.Millisecond
	longest  = 1250 * time.Millisecond
)

func TestFast_GivesWhatItIsGiven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 3)
		first := p.poll()
		p.poll()
		assert.Equal(t, 3, p.supplier.MaxSlots())
		eager := p.supplier.TryReserveSlot(nil)
		assert.NotNil(t, eager)
		assert.Nil(t, p.supplier.TryReserveSlot(nil), "no more than there are")
		r := p.reserve(t.Context())
		assert.False(t, r.done(), "no more than there are")
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
		assert.False(t, second.done() || third.done(), "a pause")
		sleep(shortest - time.Millisecond)
		assert.False(t, second.done() || third.done(), "a pause")
		sleep(longest - shortest + time.Millisecond)
		assert.True(t, second.done() != third.done(), "one of the two, while the first task still runs")

		next := second
		if third.done() {
			next = third
		}
		p.released(next.permit)
		sleep(longest)
		assert.True(t, second.done() && third.done(), "a poll that brought no task has ended as well")
	})
}

// What a worker takes that fails its tasks at once, with pollers enough.
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

func TestSlow_WaitsForThePollsOfBefore(t *testing.T) {
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

// Those who wait for a slot when polling becomes slow get it, but poll in turn.
func TestSlow_HoldsThoseWhoWaitForASlot(t *testing.T) {
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

// One reservation has a slot and waits to poll, another may poll and waits for a
// slot: the first goes on.
func TestSlow_DoesNotLockItselfOut(t *testing.T) {
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

// Others may share the slots: a slow worker that has none to poll with waits for one.
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
		assert.NotNil(t, shared.TryReserveSlot(nil), "the other slot is left to others")
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
		assert.True(t, pausing.done(), "in the midst of a pause")
		assert.NotNil(t, p.poll(), "and no pause is left")
		assert.NotNil(t, p.supplier.TryReserveSlot(nil))

		p.slow(true)
		behind := p.reserve(t.Context())
		assert.False(t, behind.done())
		p.slow(false)
		assert.True(t, behind.done(), "behind outstanding polls")
	})
}

func TestSlow_IsLeftByAWorkerThatStops(t *testing.T) {
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

// A slot that is already reserved goes back by way of the SDK.
func TestSlow_IsLeftWithTheSlotInHand(t *testing.T) {
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

// One that waits for a slot with its turn taken hands both back.
func TestSlow_IsLeftByTheOneWithTheTurn(t *testing.T) {
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

func TestSlow_GivesEagerActivitiesNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, 5)
		p.slow(true)
		assert.Nil(t, p.supplier.TryReserveSlot(nil))
		p.slow(false)
		eager := p.supplier.TryReserveSlot(nil)
		require.NotNil(t, eager)
		p.slow(true)
		p.poll() // An eager task is no poll: nothing waits for it.
		p.failFast(eager)
	})
}

// failing is a supplier of the user's own, in trouble.
type failing struct {
	worker.SlotSupplier
	err error
}

func (f failing) ReserveSlot(context.Context, worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	return nil, f.err
}

func TestSlow_GivesErrorsOn(t *testing.T) {
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

// Everything at once, on the real clock, for the race detector.
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
	assert.Nil(t, supplier.TryReserveSlot(nil), "and none is made")
}
