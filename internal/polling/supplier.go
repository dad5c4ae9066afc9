package polling

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"
)

// pause is the mean wait of a slow worker from the end of a poll to its next one.
const pause = time.Second

// supplier limits the slots of another supplier. The SDK reserves a slot before each
// poll, so a worker that waits for a slot does not poll.
//
// While polling is slow, at most one poll is outstanding, and the next one follows after
// a pause. Polls that were outstanding when polling became slow cannot be cancelled and
// may still bring tasks, so the first slow poll waits for all of them. Slots of running
// tasks do not matter here.
type supplier struct {
	worker.SlotSupplier
	gate *Gate

	mu sync.Mutex
	// polls are the permits of outstanding polls: reserved, and neither used nor
	// released.
	polls map[*worker.SlotPermit]struct{}
	// turn is held by the one reservation that may take a slot while polling is slow, so
	// that waiting reservations do not take slots from others that share them.
	turn bool
	// next is when the pause after the last slow poll ends.
	next time.Time
	// freed is closed when a poll ends or the turn is released. It is nil while nothing
	// waits.
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
		defer s.releaseTurn()
	}
	permit, err := s.SlotSupplier.ReserveSlot(ctx, info)
	if err != nil || permit == nil {
		return permit, err
	}
	// The gate may have changed meanwhile. A reservation with a slot keeps it until its
	// poll may begin, and needs no turn, because the holder of the turn may be waiting
	// for this slot. When ctx ends the wait, the SDK releases the slot.
	_ = s.await(ctx, func(slow bool) bool {
		if slow && !s.idle() {
			return false
		}
		s.polls[permit] = struct{}{}
		return true
	})
	return permit, nil
}

// TryReserveSlot serves eager activities. They bring tasks without a poll.
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

// await calls try, now and after each change, until it returns true or ctx is done.
func (s *supplier) await(ctx context.Context, try func(slow bool) bool) error {
	for {
		slow, changed := s.gate.state()
		done, due, freed := s.try(slow, try)
		if done {
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

func (s *supplier) try(slow bool, try func(slow bool) bool) (done bool, due <-chan time.Time, freed <-chan struct{}) {
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

// idle reports whether a slow poll may begin.
func (s *supplier) idle() bool { return len(s.polls) == 0 && !time.Now().Before(s.next) }

func (s *supplier) releaseTurn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn = false
	s.wake()
}

// end records that the poll of a permit has ended, if it has not before.
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
	s.wake()
}

// wake lets the waiting reservations try again.
func (s *supplier) wake() {
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}
