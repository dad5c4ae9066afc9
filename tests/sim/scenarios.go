package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// config is the default configuration.
var config = breaker.Config{}.WithDefaults()

// newSimulation returns a fleet whose workers have made calls for a full window. rate
// returns the calls a second of each worker.
func newSimulation(seed uint64, workers int, rate func(*rand.Rand) float64, noise float64) *simulation {
	random := rand.New(rand.NewPCG(seed, 0x746f6f6c))
	s := &simulation{clock: &clock{}, config: config, random: random, latencies: measured}
	for i := range workers {
		// Each worker makes its past calls separately.
		s.clock.now = 0
		p := newProcess(fmt.Sprintf("%d.1@host-%d", 1000+i%7, i), config, s.clock, random, rate(random), noise)
		for p.next < config.Window {
			s.clock.now = p.next
			p.call()
		}
		s.clock.now = config.Window
		p.tick += config.Window
		p.schedule()
		s.processes = append(s.processes, p)
	}
	return s
}

func always(rate float64) func(*rand.Rand) float64 {
	return func(*rand.Rand) float64 { return rate }
}

// oneOutlier returns whether a fleet confirms an outage of a dependency that only
// one worker cannot reach.
func oneOutlier(seed uint64, workers int) bool {
	s := newSimulation(seed, workers, func(r *rand.Rand) float64 { return logUniform(r, 0.1, 20) }, 0.01)
	s.processes[0].fault = []fault{failing, hanging}[seed%2]
	for end := s.clock.now + 40*time.Second; s.clock.now < end && s.confirmed == 0; {
		s.pass()
	}
	return s.confirmed > 0
}

// outage is the result of one true outage, in seconds.
type outage struct {
	// suffices is the time from the fault until the evidence of all workers trips the
	// rule, and keeps doing so until the outage is confirmed or maxDelay has passed;
	// +Inf: never.
	suffices float64
	// confirmed and allOpen are times from the fault; +Inf: never.
	confirmed, allOpen float64
	signals            int
}

// trueOutage simulates an outage until every breaker is open, for at most three
// minutes.
func trueOutage(seed uint64, workers int, rate float64, f fault) outage {
	s := newSimulation(seed, workers, always(rate), 0)
	for _, p := range s.processes {
		p.fault = f
	}
	began := s.clock.now
	since := func(at time.Duration) float64 { return (at - began).Seconds() }
	o := outage{suffices: math.Inf(1), confirmed: math.Inf(1), allOpen: math.Inf(1)}
	steps := 0
	for s.clock.now < began+3*time.Minute {
		s.pass()
		if steps++; steps%5 == 0 && s.confirmed == 0 && since(s.clock.now)-o.suffices <= maxDelay {
			if !s.suffices() {
				o.suffices = math.Inf(1)
			} else if math.IsInf(o.suffices, 1) {
				o.suffices = since(s.clock.now)
			}
		}
		if s.confirmed == 0 || len(s.coming) > 0 && s.applied == 0 {
			continue
		}
		if !slices.ContainsFunc(s.processes, func(p *process) bool { return p.opened == 0 }) {
			break
		}
	}
	o.signals = s.signals
	if s.confirmed > 0 {
		o.confirmed = since(s.confirmed)
		o.suffices = min(o.suffices, o.confirmed)
	}
	last := time.Duration(0)
	for _, p := range s.processes {
		if p.opened == 0 {
			return o
		}
		last = max(last, p.opened)
	}
	o.allOpen = since(last)
	return o
}

// noise is the result of a healthy fleet.
type noise struct{ suspicions, confirmed, signals int }

// healthyNoise simulates a healthy fleet in which a share of calls fails at random.
func healthyNoise(seed uint64, workers int, rate, share, hours float64) noise {
	s := newSimulation(seed, workers, always(rate), share)
	for end := s.clock.now + time.Duration(hours*float64(time.Hour)); s.clock.now < end; {
		s.pass()
	}
	result := noise{suspicions: s.suspicions, signals: s.signals}
	if s.confirmed > 0 {
		result.confirmed = 1
	}
	return result
}
