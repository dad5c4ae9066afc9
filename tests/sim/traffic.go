package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/fleet/member"
)

// step is how finely time passes.
const step = 10 * time.Millisecond

// key is the one that everyone calls.
var key = breaker.Key{Dependency: "carrier-api", Region: "eu-west"}

// clock is a simulation's time.
type clock struct{ now time.Duration }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (c *clock) Elapsed() time.Duration { return c.now }
func (c *clock) Now() time.Time         { return noon.Add(c.now) }

// fault is what is wrong with a worker's way to the dependency. The zero fault is
// none.
type fault int

const (
	_ fault = iota
	// failing ends every call at once, and badly.
	failing
	// hanging ends no call before its timeout.
	hanging
)

func (f fault) String() string { return [...]string{"none", "error", "hang"}[f] }

// callTimeout is when a call that hangs ends.
const callTimeout = 30 * time.Second

// process is one worker: the breaker, and the reporter that speaks for it.
type process struct {
	clock    *clock
	registry *breaker.Registry
	breaker  *breaker.Breaker
	reporter member.Reporter
	random   *rand.Rand
	// rate is in calls a second, noise the share that fails for no reason.
	rate, noise float64
	fault       fault
	// next is when the next call begins, tick when the breaker is looked at next.
	next, tick time.Duration
	// hung are calls in flight, oldest first.
	hung []hungCall
	// due is when the reporter may have something to say.
	due time.Duration
	// tripped is what the breaker last opened on, until it closes.
	tripped *fleet.Report
	// opened is when it first opened.
	opened      time.Duration
	quarantined bool
}

const never = time.Duration(math.MaxInt64)

type hungCall struct {
	permit *breaker.Permit
	ends   time.Duration
}

// tickEvery is how often a worker's breakers are looked at: as interceptor does,
// a twentieth of the latency threshold, and a quarter of a second at most.
func tickEvery(c breaker.Config) time.Duration { return min(c.Latency/20, 250*time.Millisecond) }

func newProcess(name string, config breaker.Config, c *clock, random *rand.Rand, rate, noise float64) *process {
	p := &process{clock: c, random: random, rate: rate, noise: noise, due: never}
	p.registry = breaker.NewRegistry(c, p.moved)
	p.registry.Random = random.Float64
	p.registry.OnSuspicion = func(_ *breaker.Breaker, s breaker.Suspicion) {
		p.reporter.Suspected(c.now, key, s)
		p.plan()
	}
	p.breaker = p.registry.Get(key, config)
	p.reporter = member.Reporter{
		Worker: name, Random: random.Float64,
		Breaker: func(breaker.Key) (breaker.Snapshot, bool) { return p.breaker.Snapshot(), true },
	}
	p.next = c.now + p.pause()
	p.tick = c.now + time.Duration(random.Float64()*float64(tickEvery(config)))
	return p
}

// pause is how long until the next call.
func (p *process) pause() time.Duration {
	return time.Duration(min(p.random.ExpFloat64()/p.rate, 1e9) * float64(time.Second))
}

// call makes the calls that are due, and ends those that have hung long enough.
func (p *process) call() {
	for len(p.hung) > 0 && p.clock.now >= p.hung[0].ends {
		p.hung[0].permit.Done(breaker.Failure)
		p.hung = p.hung[1:]
		p.registry.Deliver()
	}
	for p.clock.now >= p.next {
		p.next += p.pause()
		permit, refusal := p.breaker.Allow(breaker.Call{Attempt: 1})
		switch {
		case refusal != nil:
		case p.fault == hanging:
			p.hung = append(p.hung, hungCall{&permit, p.clock.now + callTimeout})
		case p.fault == failing || p.noise > 0 && p.random.Float64() < p.noise:
			permit.Done(breaker.Failure)
			p.registry.Deliver()
		default:
			permit.Done(breaker.Success)
		}
	}
}

// look ticks when it is time.
func (p *process) look(every time.Duration) {
	if p.clock.now >= p.tick {
		p.tick += every
		p.registry.Tick()
		p.registry.Deliver()
	}
}

// moved is told each transition of the breaker.
func (p *process) moved(t breaker.Transition) {
	switch {
	case t.To == breaker.Closed:
		p.tripped = nil
		p.reporter.Closed(key)
	case t.Local && t.To == breaker.Open:
		p.tripped = &fleet.Report{State: t.From, Evidence: t.Evidence}
		p.reporter.Tripped(p.clock.now, key, *p.tripped, p.quarantined)
	}
	if t.To == breaker.Open && p.opened == 0 {
		p.opened = p.clock.now
	}
	p.plan()
}

// plan notes when the reporter may have something to say.
func (p *process) plan() {
	p.due = never
	if due, ok := p.reporter.NextDue(); ok {
		p.due = due
	}
}

// hear takes the board's table.
func (p *process) hear(t fleet.Table) {
	for _, e := range t.Entries {
		if e.Dismissed && slices.Contains(e.Outliers, p.reporter.Worker) && p.breaker.Snapshot().DecidedLocally() {
			p.quarantined = true
			p.reporter.ForgetTrip(key)
			continue
		}
		p.breaker.Apply(e.Verdict)
		p.registry.Deliver()
	}
	p.reporter.TableChanged(p.clock.now, p.clock.Now(), t, func(breaker.Key) bool { return true })
	p.plan()
}

// evidence is what this worker knows: what it tripped on, or its window.
func (p *process) evidence() breaker.Evidence {
	if p.tripped != nil {
		return p.tripped.Evidence
	}
	return p.breaker.Evidence()
}

// logUniform draws from low to high, each factor alike.
func logUniform(random *rand.Rand, low, high float64) float64 {
	return low * math.Pow(high/low, random.Float64())
}
