package polling

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"
)

// pause is about how long a slow worker waits from the end of a poll to its next.
const pause = time.Second

// supplier gives the slots of another one. The SDK reserves a slot before each
// poll, so whoever waits for a slot does not poll.
//
// While the gate says slow, one poll at most is outstanding, and the next follows
// a pause after it. Polls that were outstanding when the gate changed cannot be
// taken back: each may still bring a task, and the first slow poll waits for all
// of them. Slots of tasks that are being worked on are nobody's concern here.
type supplier struct {
	worker.SlotSupplier
	gate *Gate

	mu sync.Mutex
	// polls are the permits of outstanding polls: given, and not yet used or
	// released.
	polls map[*worker.SlotPermit]struct{}
	// turn is taken by the one reservation that goes for a slot while polling is
	// slow, so that the others take none from whoever shares the slots.
	turn bool
	// next is when the pause after the last slow poll ends.
	next time.Time
	// freed is closed when a poll ends or the turn is handed back; nil while nobody
	// waits for that.
	freed chan struct{}
}

func wrap(inner worker.SlotSupplier, gate *Gate) worker.SlotSupplier {
	if inner == nil {
		return nil
	}
	s := &supplier{SlotSupplier: inner, gate: gate, polls: map[*worker.SlotPermit]struct{}{}}
	if has, ok := inner.(worker.HasSysInfoProvider); ok {
		return struct {
			*supplier
			worker.HasSysInfoProvider
		}{s, has}
	}
	return s
}

func (s *supplier) ReserveSlot(ctx context.Context, info worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	hasTurn := false
	err := s.await(ctx, func(slow bool) bool {
		hasTurn = slow && !s.turn && s.idle()
		s.turn = s.turn || hasTurn
		return !slow || hasTurn
	})
	if err != nil {
		return nil, err
	}
	if hasTurn {
		defer s.handBack()
	}
	permit, err := s.SlotSupplier.ReserveSlot(ctx, info)
	if err != nil || permit == nil {
		return permit, err
	}
	// The gate may have changed meanwhile. Whoever has a slot keeps it until its poll
	// may begin, and waits for no turn: the one who has that may be waiting for this
	// very slot. When ctx ends the wait, the SDK releases the slot.
	_ = s.await(ctx, func(slow bool) bool {
		if slow && !s.idle() {
			return false
		}
		s.polls[permit] = struct{}{}
		return true
	})
	return permit, nil
}

// TryReserveSlot is for eager activities. They are no polls, but tasks all the same.
func (s *supplier) TryReserveSlot(info worker.SlotReservationInfo) *worker.SlotPermit {
	if s.gate.Slow() {
		return nil
	}
	return s.SlotSupplier.TryReserveSlot(info)
}

func (s *supplier) MarkSlotUsed(info worker.SlotMarkUsedInfo) {
	s.end(info.Permit())
	s.SlotSupplier.MarkSlotUsed(info)
}

func (s *supplier) ReleaseSlot(info worker.SlotReleaseInfo) {
	s.end(info.Permit())
	s.SlotSupplier.ReleaseSlot(info)
}

// await tries to go on, now and whenever something has changed, until that succeeds.
func (s *supplier) await(ctx context.Context, try func(slow bool) bool) error {
	for {
		slow, changed := s.gate.look()
		gone, due, freed := s.try(slow, try)
		if gone {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-due:
		case <-freed:
		}
	}
}

func (s *supplier) try(slow bool, try func(slow bool) bool) (gone bool, due <-chan time.Time, freed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if try(slow) {
		return true, nil, nil
	}
	if s.freed == nil {
		s.freed = make(chan struct{})
	}
	if wait := time.Until(s.next); wait > 0 {
		due = time.After(wait)
	}
	return false, due, s.freed
}

// idle tells whether a slow poll may begin.
func (s *supplier) idle() bool { return len(s.polls) == 0 && !time.Now().Before(s.next) }

func (s *supplier) handBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = false
	s.tell()
}

// end notes that the poll of a permit has ended, if it has not before.
func (s *supplier) end(permit *worker.SlotPermit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.polls[permit]; !ok {
		return
	}
	delete(s.polls, permit)
	if s.gate.Slow() {
		s.next = time.Now().Add(pause*3/4 + rand.N(pause/2))
	}
	s.tell()
}

// tell wakes those who wait for their poll.
func (s *supplier) tell() {
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}
