package interceptor_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
)

// slotInfo is what a worker tells of a slot.
type slotInfo struct {
	worker.SlotReservationInfo
	worker.SlotReleaseInfo
	permit *worker.SlotPermit
}

func (i slotInfo) Permit() *worker.SlotPermit          { return i.permit }
func (slotInfo) Logger() log.Logger                    { return quiet }
func (slotInfo) MetricsHandler() client.MetricsHandler { return nil }

// pollers are two loops that ask for tasks, as a worker's are. Each task is there
// at once, and done at once.
type pollers struct {
	mu    sync.Mutex
	tasks int
	// most is how many polls were out at a time.
	out, most int
}

func (p *pollers) run(ctx context.Context, slots worker.SlotSupplier) {
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for ctx.Err() == nil {
				permit, err := slots.ReserveSlot(ctx, slotInfo{})
				if err != nil {
					return
				}
				p.mu.Lock()
				p.out++
				p.most = max(p.most, p.out)
				p.mu.Unlock()
				time.Sleep(10 * time.Millisecond)
				p.mu.Lock()
				p.out--
				p.tasks++
				p.mu.Unlock()
				slots.MarkSlotUsed(slotInfo{permit: permit})
				slots.ReleaseSlot(slotInfo{permit: permit})
			}
		})
	}
	both.Wait()
}

func (p *pollers) count() (tasks, most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	tasks, most = p.tasks, p.most
	p.tasks, p.most = 0, 0
	return tasks, most
}

func TestPolling_OfASlowWorkerIsOnePollAtATimeAndAPauseAfterEachTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := newPlugin(t, guarded(&clock{}))
		var o worker.Options
		require.NoError(t, plugin.Paced(&o))
		slots := o.Tuner.GetActivityTaskSlotSupplier()
		ctx, cancel := context.WithCancel(context.Background())
		var p pollers
		var running sync.WaitGroup
		running.Go(func() { p.run(ctx, slots) })

		time.Sleep(10 * time.Second)
		tasks, most := p.count()
		assert.InDelta(t, 2000, tasks, 5, "as fast as they come")
		assert.Equal(t, 2, most)

		plugin.SetSlow(true)
		time.Sleep(time.Second)
		p.count()
		time.Sleep(time.Minute)
		tasks, most = p.count()
		assert.InDelta(t, 40, tasks, 10, "one in a second to two")
		assert.Equal(t, 1, most)
		assert.Nil(t, slots.TryReserveSlot(slotInfo{}), "nothing eager")

		plugin.SetSlow(false)
		time.Sleep(time.Second)
		tasks, most = p.count()
		assert.InDelta(t, 200, tasks, 5, "at once, with no pause left over")
		assert.Equal(t, 2, most)

		plugin.SetSlow(true)
		synctest.Wait()
		cancel()
		running.Wait()
	})
}

func TestPolling_OfASlowWorkerThatStopsEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := newPlugin(t, guarded(&clock{}))
		var o worker.Options
		require.NoError(t, plugin.Paced(&o))
		slots := o.Tuner.GetActivityTaskSlotSupplier()
		plugin.SetSlow(true)
		permit, err := slots.ReserveSlot(context.Background(), slotInfo{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = slots.ReserveSlot(ctx, slotInfo{})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		// A poll that brought nothing is followed at once.
		slots.ReleaseSlot(slotInfo{permit: permit})
		began := time.Now()
		_, err = slots.ReserveSlot(context.Background(), slotInfo{})
		require.NoError(t, err)
		assert.Equal(t, began, time.Now())
	})
}

func TestPolling_KeepsTheNumbersOfSlots(t *testing.T) {
	t.Parallel()
	own, err := worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{NumActivitySlots: 7, NumWorkflowSlots: 5})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		options              worker.Options
		activities, workflow int
	}{
		"the SDK's":      {worker.Options{}, 1000, 1000},
		"by the options": {worker.Options{MaxConcurrentActivityExecutionSize: 3, MaxConcurrentWorkflowTaskExecutionSize: 4}, 3, 4},
		"a user's tuner": {worker.Options{Tuner: own}, 7, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := c.options
			require.NoError(t, newPlugin(t, guarded(&clock{})).Paced(&o))
			assert.Equal(t, c.activities, o.Tuner.GetActivityTaskSlotSupplier().MaxSlots())
			assert.Equal(t, c.workflow, o.Tuner.GetWorkflowTaskSlotSupplier().MaxSlots())
			assert.Zero(t, o.MaxConcurrentActivityExecutionSize, "the SDK takes no number beside a tuner")
		})
	}
}
