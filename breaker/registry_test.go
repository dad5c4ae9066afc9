package breaker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func regionKey(n int) Key { return Key{Dependency: "carrier-api", Region: fmt.Sprint("region-", n)} }

func TestRegistryFindsWhatItMade(t *testing.T) {
	r := NewRegistry(&testClock{}, nil)
	made := map[Key]*Breaker{}
	for n := range 1000 {
		made[regionKey(n)] = r.Get(regionKey(n), Config{})
	}
	for key, b := range made {
		require.Same(t, b, r.Get(key, Config{MinSamples: 99}))
		found, ok := r.Find(key)
		require.True(t, ok)
		require.Same(t, b, found)
		require.Equal(t, key, found.Key())
	}
	_, ok := r.Find(Key{Dependency: "carrier-api", Region: "nowhere"})
	require.False(t, ok)
	require.Len(t, r.All(), 1000)
}

func TestFindingAKnownKeyAllocatesNothing(t *testing.T) {
	r := NewRegistry(&testClock{}, nil)
	r.Get(testKey, Config{})
	require.Zero(t, testing.AllocsPerRun(1000, func() { r.Get(testKey, Config{}) }))
}

func TestRegistryEvictsTheLeastRecentlyUsed(t *testing.T) {
	clock := &testClock{}
	r := NewRegistry(clock, nil)
	r.MaxKeys = 4
	use := func(n int) {
		p, refusal := r.Get(regionKey(n), Config{}).Allow(Call{})
		require.Nil(t, refusal)
		p.Done(Success)
		clock.advance(2 * time.Second)
	}
	for n := range 4 {
		use(n)
	}
	use(0)
	use(9)
	require.Len(t, r.All(), 4)
	_, ok := r.Find(regionKey(1))
	require.False(t, ok, "the least recently used one")
	_, ok = r.Find(regionKey(0))
	require.True(t, ok)
}

func TestRegistryNeverEvictsWhatIsNotClosedOrInUse(t *testing.T) {
	clock := &testClock{}
	r := NewRegistry(clock, nil)
	r.MaxKeys = 3
	open := r.Get(regionKey(0), Config{})
	require.NoError(t, open.Force(Force{State: ForcedOpen, By: "ann", Note: "a test", For: time.Hour}))
	busy := r.Get(regionKey(1), Config{})
	p, _ := busy.Allow(Call{})
	clock.advance(time.Minute)
	r.Get(regionKey(2), Config{})
	r.Get(regionKey(3), Config{})
	for _, n := range []int{0, 1, 3} {
		_, ok := r.Find(regionKey(n))
		require.True(t, ok, n)
	}
	third := r.Get(regionKey(3), Config{})
	q, _ := third.Allow(Call{})

	unguarded := r.Get(regionKey(4), Config{})
	require.Len(t, r.All(), 3)
	require.Equal(t, int64(1), r.Unguarded())
	for range 100 {
		one, refusal := unguarded.Allow(Call{})
		require.Nil(t, refusal, "passes")
		one.Done(Failure)
	}
	p.Done(Success)
	q.Done(Success)
	clock.advance(evictPause)
	r.Get(regionKey(4), Config{})
	require.Len(t, r.All(), 3)
	_, ok := r.Find(regionKey(4))
	require.True(t, ok, "a place is free again")
}

// An evicted breaker cannot open, because nothing would close it.
func TestAnEvictedBreakerNeverOpens(t *testing.T) {
	r := NewRegistry(&testClock{}, nil)
	r.MaxKeys = 1
	old := r.Get(regionKey(0), Config{})
	r.Get(regionKey(1), Config{})
	for range 100 {
		p, refusal := old.Allow(Call{})
		require.Nil(t, refusal)
		p.Done(Failure)
	}
	old.Apply(Verdict{State: Open, Epoch: 1})
	require.Equal(t, Closed, old.Snapshot().State)
	require.Error(t, old.Force(Force{State: ForcedOpen, By: "ann", Note: "a test", For: time.Hour}))
}

func TestTransitionsAreDeliveredInOrderAndOffTheCallPath(t *testing.T) {
	var r *Registry
	release := make(chan struct{})
	var mu sync.Mutex
	var got []Transition
	r = NewRegistry(SystemClock(), func(e Transition) {
		<-release
		// No lock is held here, so the hook may use the breaker.
		b, _ := r.Find(e.Key)
		b.Snapshot()
		mu.Lock()
		got = append(got, e)
		mu.Unlock()
		panic("a panic of the hook has no effect")
	})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.Run(ctx, time.Millisecond)
	}()
	b := r.Get(testKey, Config{})
	for n := range 10 {
		// The hook blocks. Neither calls nor ticks wait for it.
		require.NoError(t, b.Force(Force{State: ForcedOpen, By: "ann", Note: fmt.Sprint(n), For: time.Hour}))
		require.NoError(t, b.Force(Force{State: ForcedClosed, By: "ann", Note: fmt.Sprint(n), For: time.Hour}))
	}
	close(release)
	cancel()
	<-stopped
	require.Len(t, got, 20)
	for i, e := range got {
		require.Equal(t, int64(i+1), e.Edge, "exactly one for each edge, in order")
	}
	require.Equal(t, int64(20), r.HookPanics())
}

func TestTicksGoToWhatNeedsThem(t *testing.T) {
	clock := &testClock{}
	r := NewRegistry(clock, nil)
	for n := range 100 {
		r.Get(regionKey(n), Config{})
	}
	require.Empty(t, r.awake)
	p, _ := r.Get(regionKey(1), Config{}).Allow(Call{})
	r.Tick()
	require.Len(t, r.awake, 1)
	p.Done(Success)
	r.Tick()
	require.Len(t, r.awake, 1, "its window holds a sample")
	clock.advance(2 * time.Minute)
	r.Tick()
	require.Empty(t, r.awake)
	require.Nil(t, r.All()[0].generation)
}

func (b *Breaker) call(outcome Outcome) {
	p, refusal := b.Allow(Call{})
	if refusal == nil {
		p.Done(outcome)
	}
}
