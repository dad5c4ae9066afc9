package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// config is the breaker's default.
var config = breaker.Config{}.WithDefaults()

// newWorld makes a fleet whose workers have been at work for a whole window. rate
// gives each worker's.
func newWorld(seed uint64, workers int, rate func(*rand.Rand) float64, noise float64) *world {
	random := rand.New(rand.NewPCG(seed, 0x746f6f6c))
	w := &world{clock: &clock{}, config: config, random: random, latencies: measured}
	for i := range workers {
		// Each lives through its past by itself.
		w.clock.now = 0
		p := newProcess(fmt.Sprintf("%d.1@host-%d", 1000+i%7, i), config, w.clock, random, rate(random), noise)
		for p.next < config.Window {
			w.clock.now = p.next
			p.call()
		}
		w.clock.now = config.Window
		p.tick += config.Window
		p.plan()
		w.processes = append(w.processes, p)
	}
	return w
}

func always(rate float64) func(*rand.Rand) float64 {
	return func(*rand.Rand) float64 { return rate }
}

// oneBadWorker tells whether a fleet convicts a dependency that one worker alone
// cannot reach.
func oneBadWorker(seed uint64, workers int) bool {
	w := newWorld(seed, workers, func(r *rand.Rand) float64 { return logUniform(r, 0.1, 20) }, 0.01)
	w.processes[0].fault = []fault{failing, hanging}[seed%2]
	for end := w.clock.now + 40*time.Second; w.clock.now < end && w.confirmed == 0; {
		w.pass()
	}
	return w.confirmed > 0
}

// outage is what one true outage came to, in seconds.
type outage struct {
	// enough is from the fault until all that all workers know convicts, and goes on
	// doing so up to the conviction, or for longer than that may take; +Inf where that
	// never came.
	enough float64
	// confirmed and allOpen are from the fault; +Inf: never.
	confirmed, allOpen float64
	signals            int
}

// trueOutage plays an outage until every breaker is open, for at most three
// minutes.
func trueOutage(seed uint64, workers int, rate float64, f fault) outage {
	w := newWorld(seed, workers, always(rate), 0)
	for _, p := range w.processes {
		p.fault = f
	}
	broke := w.clock.now
	since := func(at time.Duration) float64 { return (at - broke).Seconds() }
	o := outage{enough: math.Inf(1), confirmed: math.Inf(1), allOpen: math.Inf(1)}
	looks := 0
	for w.clock.now < broke+3*time.Minute {
		w.pass()
		if looks++; looks%5 == 0 && w.confirmed == 0 && since(w.clock.now)-o.enough <= within {
			if !w.enough() {
				o.enough = math.Inf(1)
			} else if math.IsInf(o.enough, 1) {
				o.enough = since(w.clock.now)
			}
		}
		if w.confirmed == 0 || len(w.coming) > 0 && w.told == 0 {
			continue
		}
		if !slices.ContainsFunc(w.processes, func(p *process) bool { return p.opened == 0 }) {
			break
		}
	}
	o.signals = w.signals
	if w.confirmed > 0 {
		o.confirmed = since(w.confirmed)
		o.enough = min(o.enough, o.confirmed)
	}
	last := time.Duration(0)
	for _, p := range w.processes {
		if p.opened == 0 {
			return o
		}
		last = max(last, p.opened)
	}
	o.allOpen = since(last)
	return o
}

// noise is what a healthy fleet came to.
type noise struct{ suspicions, convictions, signals int }

// healthyNoise plays a healthy fleet in which a share of calls fails.
func healthyNoise(seed uint64, workers int, rate, share, hours float64) noise {
	w := newWorld(seed, workers, always(rate), share)
	for end := w.clock.now + time.Duration(hours*float64(time.Hour)); w.clock.now < end; {
		w.pass()
	}
	n := noise{suspicions: w.suspicions, signals: w.signals}
	if w.confirmed > 0 {
		n.convictions = 1
	}
	return n
}
