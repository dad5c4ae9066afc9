package polling

import "go.temporal.io/sdk/worker"

// Configure makes a worker with these options check the gate before it polls for
// activities. It changes neither workflow tasks, local activities and Nexus, nor
// sessions, whose tasks no other worker can take.
//
// It sets a tuner and clears the sizes, because the SDK panics over both. So a plugin
// that comes later must not set a MaxConcurrent*ExecutionSize, and reads 0 from them. It
// may wrap the tuner. If it replaces the tuner, polling is never slow.
func Configure(o *worker.Options, gate *Gate) {
	if t, ok := o.Tuner.(*tuner); ok && t.gate == gate {
		return
	}
	if o.Tuner == nil {
		if o.MaxConcurrentWorkflowTaskExecutionSize == 1 {
			// The SDK panics over this size with a message that explains it.
			return
		}
		o.Tuner = fixedSize(o)
	}
	o.Tuner = &tuner{WorkerTuner: o.Tuner, gate: gate}
}

// fixedSize returns the tuner that the SDK makes of the sizes, and clears them. Sizes of
// 0 and less are the SDK's defaults.
func fixedSize(o *worker.Options) worker.WorkerTuner {
	fixed, err := worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{
		NumWorkflowSlots:      o.MaxConcurrentWorkflowTaskExecutionSize,
		NumActivitySlots:      o.MaxConcurrentActivityExecutionSize,
		NumLocalActivitySlots: o.MaxConcurrentLocalActivityExecutionSize,
		NumNexusSlots:         o.MaxConcurrentNexusTaskExecutionSize,
	})
	if err != nil {
		panic(err) // The SDK accepts all sizes.
	}
	o.MaxConcurrentWorkflowTaskExecutionSize, o.MaxConcurrentActivityExecutionSize = 0, 0
	o.MaxConcurrentLocalActivityExecutionSize, o.MaxConcurrentNexusTaskExecutionSize = 0, 0
	return fixed
}

// tuner changes only the activity slots of another tuner. Worker heartbeats show them as
// the kind "Custom", with the same figures. The slot metrics do not change.
type tuner struct {
	worker.WorkerTuner
	gate *Gate
}

func (t *tuner) GetActivityTaskSlotSupplier() worker.SlotSupplier {
	return wrap(t.WorkerTuner.GetActivityTaskSlotSupplier(), t.gate)
}

// GetSessionActivitySlotSupplier returns the unlimited activity slots if sessions have no
// slots of their own, as the SDK does, because a session must not wait for its turn.
func (t *tuner) GetSessionActivitySlotSupplier() worker.SlotSupplier {
	if s := t.WorkerTuner.GetSessionActivitySlotSupplier(); s != nil {
		return s
	}
	return t.WorkerTuner.GetActivityTaskSlotSupplier()
}
