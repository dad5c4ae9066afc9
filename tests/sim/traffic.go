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

// step is the resolution of the virtual time.
const step = 10 * time.Millisecond

// key is the key that all workers call.
var key = breaker.Key{Dependency: "carrier-api", Region: "eu-west"}

// clock is the virtual time.
type clock struct{ now time.Duration }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (c *clock) Elapsed() time.Duration { return c.now }
func (c *clock) Now() time.Time         { return noon.Add(c.now) }

// fault is what is wrong between a worker and the dependency. The zero fault is
// none.
type fault int

const (
	_ fault = iota
	// failing: every call fails at once.
	failing
	// hanging: every call lasts until its timeout.
	hanging
)

func (f fault) String() string { return [...]string{"none", "error", "hang"}[f] }

// callTimeout is how long a hanging call lasts.
const callTimeout = 30 * time.Second

// process is one worker with its breaker and reporter.
type process struct {
	clock    *clock
	registry *breaker.Registry
	breaker  *breaker.Breaker
	reporter member.Reporter
	random   *rand.Rand
	// rate is the calls a second. noise is the share that fails at random.
	rate, noise float64
	fault       fault
	// next is when the next call begins, tick when the next tick is due.
	next, tick time.Duration
	// hung are calls in flight, oldest first.
	hung []hungCall
	// due is when the reporter may have a message.
	due time.Duration
	// tripped is the evidence of the last trip, nil while closed.
	tripped *fleet.Report
	// opened is when the breaker first opened.
	opened      time.Duration
	quarantined bool
}

const never = time.Duration(math.MaxInt64)

type hungCall struct {
	permit *breaker.Permit
	ends   time.Duration
}

// tickInterval returns the interval of a worker's ticks. As in package interceptor,
// it is a twentieth of the latency threshold, and at most a quarter of a second.
func tickInterval(c breaker.Config) time.Duration { return min(c.Latency/20, 250*time.Millisecond) }

func newProcess(name string, config breaker.Config, c *clock, random *rand.Rand, rate, noise float64) *process {
	p := &process{clock: c, random: random, rate: rate, noise: noise, due: never}
	p.registry = breaker.NewRegistry(c, p.onTransition)
	p.registry.Random = random.Float64
	p.registry.OnSuspicion = func(_ *breaker.Breaker, s breaker.Suspicion) {
		p.reporter.Suspected(c.now, key, s)
		p.schedule()
	}
	p.breaker = p.registry.Get(key, config)
	p.reporter = member.Reporter{
		Worker: name, Random: random.Float64,
		Breaker: func(breaker.Key) (breaker.Snapshot, bool) { return p.breaker.Snapshot(), true },
	}
	p.next = c.now + p.pause()
	p.tick = c.now + time.Duration(random.Float64()*float64(tickInterval(config)))
	return p
}

// pause returns the time until the next call.
func (p *process) pause() time.Duration {
	return time.Duration(min(p.random.ExpFloat64()/p.rate, 1e9) * float64(time.Second))
}

// call makes the calls that are due, and ends the hanging ones that are.
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

// tickIfDue ticks the breaker when a tick is due.
func (p *process) tickIfDue(interval time.Duration) {
	if p.clock.now >= p.tick {
		p.tick += interval
		p.registry.Tick()
		p.registry.Deliver()
	}
}

// onTransition is called with each transition of the breaker.
func (p *process) onTransition(t breaker.Transition) {
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
	p.schedule()
}

// schedule sets when the reporter may have a message.
func (p *process) schedule() {
	p.due = never
	if due, ok := p.reporter.NextDue(); ok {
		p.due = due
	}
}

// apply applies the board's table.
func (p *process) apply(t fleet.Table) {
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
	p.schedule()
}

// evidence returns the evidence of the last trip, or else that of the current
// window.
func (p *process) evidence() breaker.Evidence {
	if p.tripped != nil {
		return p.tripped.Evidence
	}
	return p.breaker.Evidence()
}

// logUniform returns a random number between low and high with a uniform logarithm.
func logUniform(random *rand.Rand, low, high float64) float64 {
	return low * math.Pow(high/low, random.Float64())
}
