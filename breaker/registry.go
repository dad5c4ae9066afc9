package breaker

import (
	"cmp"
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultMaxKeys bounds a registry whose MaxKeys is 0.
const DefaultMaxKeys = 100_000

// Registry holds a process's breakers by key. All methods may be called
// concurrently.
type Registry struct {
	// MaxKeys bounds the breakers held. A new key past it takes the place of the
	// one that is least recently used among those that are closed and have no
	// call in flight; use is known to a slice of the window. While there is none,
	// looked for once a second, new keys are not guarded: their calls pass and are
	// not counted. 0 means
	// [DefaultMaxKeys]. Set it before the first use.
	MaxKeys int
	// Random gives the numbers in [0, 1) by which cooldowns are spread. [NewRegistry]
	// sets it to [rand.Float64]. Replace it before the first use; for tests.
	Random func() float64

	// OnSuspicion is told by each tick of each breaker that suspects its dependency,
	// for as long as it does, outside every lock but that of ticking: it must not
	// wait. Optional. Set it before the first use.
	OnSuspicion func(*Breaker, Suspicion)

	clock Clock
	// breakers is read without a lock; mu serialises its changes.
	breakers *table
	mu       sync.Mutex
	// compiled are the newest configurations, so that keys share theirs.
	compiled []*settings
	// overflow counts the times that a key found no place, fullUntil is when it is
	// worth looking for one again.
	overflow  atomic.Int64
	fullUntil time.Duration

	// ticking keeps two rounds of ticks apart.
	ticking sync.Mutex
	// awake are the breakers that need ticks. awakeMu is taken inside a breaker's
	// lock and holds no other.
	awakeMu sync.Mutex
	awake   []*Breaker

	events events
}

// NewRegistry makes an empty registry. onTransition is called by
// [Registry.Run], one transition at a time and in order, outside every lock; it
// may be nil. It may be slow, and a panic of it is counted and dropped: neither
// delays a call or a tick.
func NewRegistry(clock Clock, onTransition func(Transition)) *Registry {
	return &Registry{Random: rand.Float64, clock: clock, breakers: newTable(), events: newEvents(onTransition)}
}

// Get gives the breaker of key, made with config when there is none yet. Finding
// a known key takes no lock and allocates nothing. A config that is not valid
// makes a breaker of defaults: check it with [Config.Validate] when it is read.
func (r *Registry) Get(key Key, config Config) *Breaker {
	if b := r.breakers.find(key); b != nil {
		return b
	}
	s, err := r.compile(config)
	if err != nil {
		s, _ = r.compile(Config{})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.breakers.find(key); b != nil {
		return b
	}
	b := newBreaker(key, s, r)
	if r.breakers.size >= r.maxKeys() && !r.evict() {
		r.overflow.Add(1)
		off := *s
		off.Mode = Off
		b.settings, b.evicted = &off, true
		return b
	}
	r.breakers.insert(b)
	return b
}

// Configure changes the configuration of every breaker of a dependency that there
// is now, as [Breaker.Configure] does. Breakers made later have the one that
// [Registry.Get] is given.
func (r *Registry) Configure(dependency string, c Config) error {
	s, err := r.compile(c)
	if err != nil {
		return err
	}
	for _, b := range r.All() {
		if b.key.Dependency == dependency {
			b.configure(s)
		}
	}
	return nil
}

func (r *Registry) maxKeys() int {
	if r.MaxKeys > 0 {
		return r.MaxKeys
	}
	return DefaultMaxKeys
}

// evictPause is how long a registry without an idle key does not look for one.
const evictPause = time.Second

// evict drops the least recently used keys that are idle: one in 64, so that
// looking at all of them is paid by many new ones.
func (r *Registry) evict() bool {
	type candidate struct {
		breaker *Breaker
		used    time.Duration
	}
	var idle []candidate
	now := r.clock.Elapsed()
	if now < r.fullUntil {
		return false
	}
	r.breakers.each(func(b *Breaker) {
		if used, ok := b.idleSince(now); ok {
			idle = append(idle, candidate{b, used})
		}
	})
	slices.SortStableFunc(idle, func(a, b candidate) int { return cmp.Compare(a.used, b.used) })
	gone := 0
	for _, c := range idle {
		if gone > r.breakers.size/64 {
			break
		}
		if c.breaker.evict(now) {
			r.breakers.remove(c.breaker)
			gone++
		}
	}
	if gone == 0 {
		r.fullUntil = now + evictPause
	}
	return gone > 0
}

// Find gives the breaker of key if there is one. It takes no lock.
func (r *Registry) Find(key Key) (*Breaker, bool) {
	b := r.breakers.find(key)
	return b, b != nil
}

// All gives every breaker, in no order.
func (r *Registry) All() []*Breaker {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Breaker
	r.breakers.each(func(b *Breaker) { all = append(all, b) })
	return all
}

// Unguarded counts the times that a new key found no place; see MaxKeys.
func (r *Registry) Unguarded() int64 { return r.overflow.Load() }

// HookPanics counts the panics of the function given to [NewRegistry].
func (r *Registry) HookPanics() int64 { return r.events.panics.Load() }

// compile checks a configuration and prepares it. Equal ones are shared.
func (r *Registry) compile(c Config) (*settings, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	full := c.WithDefaults()
	for _, s := range r.compiled {
		if reflect.DeepEqual(s.Config, full) {
			return s, nil
		}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	const kept = 32
	if len(r.compiled) == kept {
		r.compiled = slices.Delete(r.compiled, 0, 1)
	}
	s := newSettings(full)
	r.compiled = append(r.compiled, s)
	return s, nil
}

// Run ticks the breakers that need it each interval and delivers transitions,
// until ctx is done. It then delivers what is left and returns.
func (r *Registry) Run(ctx context.Context, interval time.Duration) {
	var delivering sync.WaitGroup
	delivering.Go(func() { r.events.run(ctx) })
	defer delivering.Wait()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.Tick()
		}
	}
}

// Deliver delivers the transitions that are waiting. [Registry.Run] does, one call
// at a time; who ticks by hand delivers by hand.
func (r *Registry) Deliver() { r.events.deliver() }

// Tick ticks each breaker that is not closed and idle, once. [Registry.Run]
// calls it.
func (r *Registry) Tick() {
	r.ticking.Lock()
	defer r.ticking.Unlock()
	r.awakeMu.Lock()
	ticked := slices.Clone(r.awake)
	r.awakeMu.Unlock()
	still := ticked[:0:len(ticked)]
	for _, b := range ticked {
		awake, suspicion := b.tick()
		if awake {
			still = append(still, b)
		}
		if suspicion != NoSuspicion && r.OnSuspicion != nil {
			r.OnSuspicion(b, suspicion)
		}
	}
	r.awakeMu.Lock()
	defer r.awakeMu.Unlock()
	// Those that woke up meanwhile stand behind the ones that were ticked.
	r.awake = append(still, r.awake[len(ticked):]...)
}

func (r *Registry) wake(b *Breaker) {
	r.awakeMu.Lock()
	defer r.awakeMu.Unlock()
	r.awake = append(r.awake, b)
}
