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

// defaultMaxKeys is the limit of a registry whose MaxKeys is 0.
const defaultMaxKeys = 100_000

// Registry holds a process's breakers by key. All methods may be called
// concurrently.
type Registry struct {
	// MaxKeys limits the number of breakers. 0 means 100,000. At the limit, a
	// new key replaces the least recently used one that is closed and has no call in
	// flight. The time of use is exact to a slice of the window. If there is no such
	// key, new keys are not guarded: their calls pass and are not counted. The registry
	// looks again after a second. Set it before the first use.
	MaxKeys int
	// Random returns numbers in [0, 1) for the jitter of cooldowns. [NewRegistry] sets it
	// to [rand.Float64]. Tests may replace it before the first use.
	Random func() float64

	// OnSuspicion is called at each tick for each breaker that suspects its dependency.
	// It runs with the lock of ticking held, so it must not block. Optional. Set it
	// before the first use.
	OnSuspicion func(*Breaker, Suspicion)

	clock Clock
	// breakers is read without a lock. mu serialises its changes.
	breakers *table
	mu       sync.Mutex
	// compiled are the newest configurations, so that keys share equal ones.
	compiled []*settings
	// overflow counts the keys that found no place. fullUntil is when to look for one
	// again.
	overflow  atomic.Int64
	fullUntil time.Duration

	// ticking serialises rounds of ticks.
	ticking sync.Mutex
	// awake are the breakers that need ticks. awakeMu may be taken with a breaker's lock
	// held, and no lock is taken under it.
	awakeMu sync.Mutex
	awake   []*Breaker

	events events
}

// NewRegistry returns an empty registry. [Registry.Run] calls onTransition with one
// transition at a time and in order, with no lock held. It may be nil. It may be slow
// or panic without delaying a call or a tick; see [Registry.HookPanics].
func NewRegistry(clock Clock, onTransition func(Transition)) *Registry {
	return &Registry{Random: rand.Float64, clock: clock, breakers: newTable(), events: newEvents(onTransition)}
}

// Get returns the breaker of key, and makes it with config if there is none yet.
// Finding a known key takes no lock and allocates nothing. An invalid config makes a
// breaker with the defaults, so check it with [Config.Validate] first.
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

// Configure changes the configuration of every existing breaker of a dependency, as
// [Breaker.Configure] does. Later breakers have the one given to [Registry.Get].
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
	return defaultMaxKeys
}

// evictPause is how long a registry without an idle key waits before it looks again.
const evictPause = time.Second

// evict drops the least recently used idle keys: one in 64, so that the scan of all
// keys is rare.
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

// Find returns the breaker of key if there is one. It takes no lock.
func (r *Registry) Find(key Key) (*Breaker, bool) {
	b := r.breakers.find(key)
	return b, b != nil
}

// All returns every breaker, in no particular order.
func (r *Registry) All() []*Breaker {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*Breaker
	r.breakers.each(func(b *Breaker) { all = append(all, b) })
	return all
}

// Unguarded returns how often a new key found no place; see MaxKeys.
func (r *Registry) Unguarded() int64 { return r.overflow.Load() }

// HookPanics returns how often the function given to [NewRegistry] panicked.
func (r *Registry) HookPanics() int64 { return r.events.panics.Load() }

// compile checks and prepares a configuration. Equal ones are shared.
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

// Run ticks breakers at each interval and delivers transitions until ctx is done.
// Then it delivers the remaining ones and returns.
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

// Deliver delivers the pending transitions, one call at a time. [Registry.Run] does it
// itself; a program that calls [Registry.Tick] instead needs it.
func (r *Registry) Deliver() { r.events.deliver() }

// Tick ticks each breaker that is not closed and idle. [Registry.Run] calls it.
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
	// Breakers that woke up meanwhile come after those that were ticked.
	r.awake = append(still, r.awake[len(ticked):]...)
}

func (r *Registry) wake(b *Breaker) {
	r.awakeMu.Lock()
	defer r.awakeMu.Unlock()
	r.awake = append(r.awake, b)
}
