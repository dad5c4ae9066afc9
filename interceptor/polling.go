package interceptor

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"
)

// betweenPolls is the shortest pause of a slow worker after a task, and the
// spread of it.
const betweenPolls = time.Second

// pace is how a plugin's workers poll. A quarantined worker ends its calls at
// once, so it has slots free when others have none, and would draw the queue's
// tasks to itself: it polls slowly instead.
type pace struct {
	mu   sync.Mutex
	slow bool
	// changed is closed and replaced with each change.
	changed chan struct{}
}

func newPace() *pace { return &pace{changed: make(chan struct{})} }

// set makes all workers slow, or not.
func (p *pace) set(slow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slow != slow {
		p.slow = slow
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

func (p *pace) now() (slow bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slow, p.changed
}

// pacedTuner slows a worker's polls for activities, and nothing else.
type pacedTuner struct {
	worker.WorkerTuner
	activities *pacedSlots
}

func (t pacedTuner) GetActivityTaskSlotSupplier() worker.SlotSupplier { return t.activities }

// paced gives a worker's options a tuner that can be slow. Without one of the
// user's it is what the SDK would make of the other options, which it takes only
// instead of a tuner. A plugin behind this one that sets a tuner of its own takes
// the slowness away; all else stays.
func (p *pace) paced(o *worker.Options) error {
	if o.Tuner == nil {
		fixed, err := worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{
			NumWorkflowSlots:      o.MaxConcurrentWorkflowTaskExecutionSize,
			NumActivitySlots:      o.MaxConcurrentActivityExecutionSize,
			NumLocalActivitySlots: o.MaxConcurrentLocalActivityExecutionSize,
			NumNexusSlots:         o.MaxConcurrentNexusTaskExecutionSize,
		})
		if err != nil {
			return err
		}
		o.Tuner = fixed
		o.MaxConcurrentWorkflowTaskExecutionSize, o.MaxConcurrentActivityExecutionSize = 0, 0
		o.MaxConcurrentLocalActivityExecutionSize, o.MaxConcurrentNexusTaskExecutionSize = 0, 0
	}
	o.Tuner = pacedTuner{o.Tuner, &pacedSlots{
		SlotSupplier: o.Tuner.GetActivityTaskSlotSupplier(), pace: p,
		polls: map[*worker.SlotPermit]bool{}, turned: make(chan struct{}),
	}}
	return nil
}

// pacedSlots are a worker's slots for activities. While slow, one poll is out at
// a time, with a pause after each that brought a task, and none is given to eager
// activities. Polls that are out as slowness begins cannot be called back.
type pacedSlots struct {
	worker.SlotSupplier
	pace *pace

	mu sync.Mutex
	// polls are the slots with which the server is being asked for a task.
	polls map[*worker.SlotPermit]bool
	// reserving says that a slow worker's next poll has its turn already.
	reserving bool
	// next is when the next poll may go out.
	next time.Time
	// turned is closed and replaced when a poll comes back.
	turned chan struct{}
}

func (s *pacedSlots) ReserveSlot(ctx context.Context, info worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	for {
		slow, changed := s.pace.now()
		if !slow {
			break
		}
		wait, turned, free := s.turn()
		if free {
			break
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-turned:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	permit, err := s.SlotSupplier.ReserveSlot(ctx, info)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserving = false
	if err == nil && permit != nil {
		s.polls[permit] = true
	}
	return permit, err
}

// turn tells whether a slow worker's next poll may go out, or how long to wait
// and what to wait for.
func (s *pacedSlots) turn() (wait time.Duration, turned <-chan struct{}, free bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait = time.Until(s.next)
	if len(s.polls) > 0 || s.reserving {
		return time.Minute, s.turned, false
	}
	s.reserving = wait <= 0
	return wait, s.turned, s.reserving
}

func (s *pacedSlots) TryReserveSlot(info worker.SlotReservationInfo) *worker.SlotPermit {
	if slow, _ := s.pace.now(); slow {
		return nil
	}
	return s.SlotSupplier.TryReserveSlot(info)
}

func (s *pacedSlots) MarkSlotUsed(info worker.SlotMarkUsedInfo) {
	s.back(info.Permit(), true)
	s.SlotSupplier.MarkSlotUsed(info)
}

func (s *pacedSlots) ReleaseSlot(info worker.SlotReleaseInfo) {
	s.back(info.Permit(), false)
	s.SlotSupplier.ReleaseSlot(info)
}

// back takes a poll that has come back, with a task or without.
func (s *pacedSlots) back(permit *worker.SlotPermit, task bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.polls[permit] {
		return
	}
	delete(s.polls, permit)
	if task {
		s.next = time.Now().Add(betweenPolls + rand.N(betweenPolls))
	}
	close(s.turned)
	s.turned = make(chan struct{})
}
