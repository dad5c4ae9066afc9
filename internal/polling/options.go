package polling

import "go.temporal.io/sdk/worker"

// Configure makes a worker with these options look at the gate before it polls for
// activities. Sessions are left alone, since nobody else could take their tasks,
// and so are workflow tasks, local activities and Nexus.
//
// The SDK takes a tuner or the sizes, and no plugin can be the last to say which. A
// plugin that comes later and wraps the tuner is fine; one that replaces it leaves
// the worker as fast as ever; one that sets a MaxConcurrent*ExecutionSize makes the
// SDK panic, as beside any tuner, and one that reads them finds 0.
func Configure(o *worker.Options, gate *Gate) {
	if t, ok := o.Tuner.(*tuner); ok && t.gate == gate {
		return
	}
	if o.Tuner == nil {
		if o.MaxConcurrentWorkflowTaskExecutionSize == 1 {
			// The SDK panics over it, and is to say why in its own words.
			return
		}
		o.Tuner = fixedSize(o)
	}
	o.Tuner = &tuner{WorkerTuner: o.Tuner, gate: gate}
}

// fixedSize is the tuner that the SDK would make of the sizes, which go: it panics
// over both. Sizes of 0 and less are its defaults, here as there.
func fixedSize(o *worker.Options) worker.WorkerTuner {
	fixed, err := worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{
		NumWorkflowSlots:      o.MaxConcurrentWorkflowTaskExecutionSize,
		NumActivitySlots:      o.MaxConcurrentActivityExecutionSize,
		NumLocalActivitySlots: o.MaxConcurrentLocalActivityExecutionSize,
		NumNexusSlots:         o.MaxConcurrentNexusTaskExecutionSize,
	})
	if err != nil {
		panic(err) // No size is an error to it.
	}
	o.MaxConcurrentWorkflowTaskExecutionSize, o.MaxConcurrentActivityExecutionSize = 0, 0
	o.MaxConcurrentLocalActivityExecutionSize, o.MaxConcurrentNexusTaskExecutionSize = 0, 0
	return fixed
}

// tuner is another one, but for the activity slots. In heartbeats these are of the
// kind "Custom" then; their figures, and the slot metrics, are as before.
type tuner struct {
	worker.WorkerTuner
	gate *Gate
}

func (t *tuner) GetActivityTaskSlotSupplier() worker.SlotSupplier {
	return wrap(t.WorkerTuner.GetActivityTaskSlotSupplier(), t.gate)
}

// GetSessionActivitySlotSupplier gives sessions the plain activity slots where they
// have none of their own, as the SDK would: they must not wait for a turn.
func (t *tuner) GetSessionActivitySlotSupplier() worker.SlotSupplier {
	if s := t.WorkerTuner.GetSessionActivitySlotSupplier(); s != nil {
		return s
	}
	return t.WorkerTuner.GetActivityTaskSlotSupplier()
}
