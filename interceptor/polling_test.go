package interceptor_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/interceptor"
)

// slots are the numbers of slots of a tuner.
type slots struct{ workflow, activity, local, nexus, session int }

func slotsOf(t worker.WorkerTuner) slots {
	return slots{
		t.GetWorkflowTaskSlotSupplier().MaxSlots(), t.GetActivityTaskSlotSupplier().MaxSlots(),
		t.GetLocalActivitySlotSupplier().MaxSlots(), t.GetNexusSlotSupplier().MaxSlots(),
		t.GetSessionActivitySlotSupplier().MaxSlots(),
	}
}

// The configured sizes are kept. Otherwise the SDK's apply.
func TestPolling_KeepsTheSizes(t *testing.T) {
	t.Parallel()
	const byDefault = 1000
	for name, c := range map[string]struct {
		given worker.Options
		want  slots
	}{
		"none": {worker.Options{}, slots{byDefault, byDefault, byDefault, byDefault, byDefault}},
		"activities": {
			worker.Options{MaxConcurrentActivityExecutionSize: 5},
			slots{byDefault, 5, byDefault, byDefault, 5},
		},
		"all": {
			worker.Options{
				MaxConcurrentWorkflowTaskExecutionSize: 2, MaxConcurrentActivityExecutionSize: 3,
				MaxConcurrentLocalActivityExecutionSize: 4, MaxConcurrentNexusTaskExecutionSize: 5,
				MaxConcurrentSessionExecutionSize: 6,
			},
			slots{2, 3, 4, 5, 3},
		},
		"negative sizes": {
			worker.Options{MaxConcurrentActivityExecutionSize: -1, MaxConcurrentNexusTaskExecutionSize: -2},
			slots{byDefault, byDefault, byDefault, byDefault, byDefault},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.given
			configured(t, newPlugin(t, guarded(&clock{})), "tools", &o, nil)
			assert.Equal(t, c.want, slotsOf(o.Tuner))
			assert.Equal(t, c.given.MaxConcurrentSessionExecutionSize, o.MaxConcurrentSessionExecutionSize)
		})
	}
}

func fixedSize(t *testing.T, size int) worker.SlotSupplier {
	t.Helper()
	s, err := worker.NewFixedSizeSlotSupplier(size)
	require.NoError(t, err)
	return s
}

func TestPolling_KeepsAWorkersOwnTuner(t *testing.T) {
	t.Parallel()
	suppliers := worker.CompositeTunerOptions{
		WorkflowSlotSupplier: fixedSize(t, 2), ActivitySlotSupplier: fixedSize(t, 1),
		LocalActivitySlotSupplier: fixedSize(t, 4), NexusSlotSupplier: fixedSize(t, 5), SessionActivitySlotSupplier: fixedSize(t, 6),
	}
	own, err := worker.NewCompositeTuner(suppliers)
	require.NoError(t, err)
	o := worker.Options{Tuner: own}
	configured(t, newPlugin(t, guarded(&clock{})), "tools", &o, nil)

	assert.Same(t, suppliers.WorkflowSlotSupplier, o.Tuner.GetWorkflowTaskSlotSupplier())
	assert.Same(t, suppliers.LocalActivitySlotSupplier, o.Tuner.GetLocalActivitySlotSupplier())
	assert.Same(t, suppliers.NexusSlotSupplier, o.Tuner.GetNexusSlotSupplier())
	assert.Same(t, suppliers.SessionActivitySlotSupplier, o.Tuner.GetSessionActivitySlotSupplier())
	permit, err := o.Tuner.GetActivityTaskSlotSupplier().ReserveSlot(t.Context(), nil)
	require.NoError(t, err)
	require.NotNil(t, permit)
	assert.Nil(t, suppliers.ActivitySlotSupplier.TryReserveSlot(nil), "its one slot is taken")
}

// If a tuner has no slots for sessions, the SDK uses those of activities. Sessions are not
// slowed.
func TestPolling_DoesNotSlowSessions(t *testing.T) {
	t.Parallel()
	activities := fixedSize(t, 3)
	own, err := worker.NewCompositeTuner(worker.CompositeTunerOptions{ActivitySlotSupplier: activities})
	require.NoError(t, err)
	o := worker.Options{Tuner: own}
	configured(t, newPlugin(t, guarded(&clock{})), "tools", &o, nil)
	assert.Same(t, activities, o.Tuner.GetSessionActivitySlotSupplier())
}

type idleMachine struct{}

func (*idleMachine) MemoryUsage(*worker.SysInfoContext) (float64, error) { return 0.1, nil }
func (*idleMachine) CpuUsage(*worker.SysInfoContext) (float64, error)    { return 0.1, nil }

func resourceBased(t *testing.T, info worker.SysInfoProvider) worker.WorkerTuner {
	t.Helper()
	tuner, err := worker.NewResourceBasedTuner(worker.ResourceBasedTunerOptions{TargetMem: 0.8, TargetCpu: 0.9, InfoSupplier: info})
	require.NoError(t, err)
	return tuner
}

func TestPolling_KeepsTheSysInfoProvider(t *testing.T) {
	t.Parallel()
	info := &idleMachine{}
	o := worker.Options{Tuner: resourceBased(t, info)}
	configured(t, newPlugin(t, guarded(&clock{})), "tools", &o, nil)
	for name, s := range map[string]worker.SlotSupplier{
		"workflow": o.Tuner.GetWorkflowTaskSlotSupplier(), "activity": o.Tuner.GetActivityTaskSlotSupplier(),
	} {
		has, ok := s.(worker.HasSysInfoProvider)
		require.True(t, ok, name)
		assert.Same(t, info, has.SysInfoProvider(), name)
	}
	o = worker.Options{}
	configured(t, newPlugin(t, guarded(&clock{})), "tools", &o, nil)
	assert.NotImplements(t, (*worker.HasSysInfoProvider)(nil), o.Tuner.GetActivityTaskSlotSupplier())
}

// made makes a worker with options and returns the SDK's panic, nil if there is none.
func made(t *testing.T, o worker.Options, plugins ...worker.Plugin) (refused any) {
	t.Helper()
	c, err := client.NewLazyClient(client.Options{Logger: quiet})
	require.NoError(t, err)
	defer c.Close()
	defer func() { refused = recover() }()
	o.Plugins = plugins
	worker.New(c, "tools", o)
	return nil
}

// The SDK accepts and rejects the same options as without the plugin, with the same message.
func TestPolling_DoesNotChangeWhichOptionsTheSDKAccepts(t *testing.T) {
	t.Parallel()
	autoscaling := worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{})
	own, err := worker.NewCompositeTuner(worker.CompositeTunerOptions{
		WorkflowSlotSupplier: fixedSize(t, 2), LocalActivitySlotSupplier: fixedSize(t, 4),
	})
	require.NoError(t, err)
	fixed, err := worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{})
	require.NoError(t, err)
	for name, c := range map[string]struct {
		given   worker.Options
		refused bool
	}{
		"defaults":                       {given: worker.Options{}},
		"sizes":                          {given: worker.Options{MaxConcurrentActivityExecutionSize: 5, MaxConcurrentLocalActivityExecutionSize: 1}},
		"no workflows":                   {given: worker.Options{DisableWorkflowWorker: true, MaxConcurrentActivityExecutionSize: 1}},
		"local activities only":          {given: worker.Options{LocalActivityWorkerOnly: true}},
		"local activities only, a tuner": {given: worker.Options{LocalActivityWorkerOnly: true, Tuner: own}},
		"sessions":                       {given: worker.Options{EnableSessionWorker: true, MaxConcurrentSessionExecutionSize: 2}},
		"eager activities, few":          {given: worker.Options{MaxConcurrentEagerActivityExecutionSize: 1}},
		"autoscaling":                    {given: worker.Options{ActivityTaskPollerBehavior: autoscaling, WorkflowTaskPollerBehavior: autoscaling}},
		"a tuner":                        {given: worker.Options{Tuner: fixed}},
		"a tuner by load":                {given: worker.Options{Tuner: resourceBased(t, &idleMachine{})}},
		"a SysInfoProvider":              {given: worker.Options{SysInfoProvider: &idleMachine{}}},
		"two SysInfoProviders": {
			given: worker.Options{SysInfoProvider: &struct{ idleMachine }{}, Tuner: resourceBased(t, &idleMachine{})}, refused: true,
		},
		"a tuner and a size":      {given: worker.Options{Tuner: fixed, MaxConcurrentActivityExecutionSize: 5}, refused: true},
		"one workflow task":       {given: worker.Options{MaxConcurrentWorkflowTaskExecutionSize: 1}, refused: true},
		"one workflow poller":     {given: worker.Options{MaxConcurrentWorkflowTaskPollers: 1}, refused: true},
		"autoscaling and a count": {given: worker.Options{MaxConcurrentActivityTaskPollers: 2, ActivityTaskPollerBehavior: autoscaling}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			without, with := made(t, c.given), made(t, c.given, newPlugin(t, guarded(&clock{})))
			assert.Equal(t, without, with)
			assert.Equal(t, c.refused, with != nil, "%v", with)
		})
	}
}

func TestPolling_IsSlowForAllWorkersOfAPlugin(t *testing.T) {
	t.Parallel()
	mine, other := newPlugin(t, guarded(&clock{})), newPlugin(t, guarded(&clock{}))
	activitySlots := func(p *interceptor.Plugin) worker.SlotSupplier {
		o := worker.Options{}
		configured(t, p, "tools", &o, nil)
		return o.Tuner.GetActivityTaskSlotSupplier()
	}
	first, second, others := activitySlots(mine), activitySlots(mine), activitySlots(other)
	mine.SlowPolling(true)
	assert.Nil(t, first.TryReserveSlot(nil))
	assert.Nil(t, second.TryReserveSlot(nil))
	assert.NotNil(t, others.TryReserveSlot(nil))
	mine.SlowPolling(false)
	assert.NotNil(t, first.TryReserveSlot(nil))
	assert.NotNil(t, second.TryReserveSlot(nil))
}

func TestPolling_OfAPluginGivenTwiceIsLimitedOnce(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	o := worker.Options{}
	configured(t, p, "tools", &o, nil)
	once := o.Tuner
	configured(t, p, "tools", &o, nil)
	assert.Same(t, once, o.Tuner)
}
