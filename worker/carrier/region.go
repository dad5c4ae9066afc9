package carrier

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// The carrier's regions. They fail independently.
const (
	EUWest = "eu-west"
	USEast = "us-east"
)

var regionNames = []string{EUWest, USEast}

// ordersName is the order database's name in URLs and random seeds.
const ordersName = "orders"

// Durations at speed 1. Options.Work is the duration of a carrier's call.
const (
	orderWork  = 300 * time.Millisecond
	errorDelay = 50 * time.Millisecond
	retryAfter = 5 * time.Second
	slowFactor = 10 // multiplies the work of a slow region
)

// timing holds a region's durations at the server's speed.
type timing struct {
	work       time.Duration // mean duration of a healthy call
	errorDelay time.Duration // duration of a call that is answered with an error
	retryAfter int           // seconds, at least 1, as HTTP requires
}

func newTiming(work time.Duration, speed float64) timing {
	at := func(d time.Duration) time.Duration { return time.Duration(float64(d) / speed) }
	return timing{
		work:       at(work),
		errorDelay: at(errorDelay),
		retryAfter: max(1, int(math.Ceil(at(retryAfter).Seconds()))),
	}
}

// region is a part of the simulator with its own fault.
type region struct {
	name   string
	timing timing
	seed   uint64

	mu    sync.Mutex
	fault Fault
	hung  chan struct{} // closed when a hang starts; later calls get a new one
	work  *rand.Rand    // for the duration of calls
	// The sequences of a flaky region restart with each fault. Health checks have
	// their own, so that they do not change which calls fail.
	flakyCalls, flakyHealth *rand.Rand
}

func newRegion(name string, t timing, seed uint64) *region {
	r := &region{name: name, timing: t, seed: seed, fault: Fault{Kind: Healthy}, hung: make(chan struct{})}
	r.work = r.random("spread")
	return r
}

// random returns the region's random sequence for a purpose, from its start.
func (r *region) random(purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.name + "/" + purpose))
	return rand.New(rand.NewPCG(r.seed, h.Sum64()))
}

func (r *region) set(f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = f
	r.flakyCalls, r.flakyHealth = r.random("calls"), r.random("health")
	if f.Kind == Hang {
		close(r.hung)
		r.hung = make(chan struct{})
	}
}

func (r *region) current() Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

// plan is the behaviour of one call, decided when it arrives.
type plan struct {
	hang   bool            // the call is never answered
	hung   <-chan struct{} // when closed, the call is not answered any more
	after  time.Duration
	status int // 200: the endpoint answers; otherwise: this error is the answer
}

// planCall returns the plan of an API call.
func (r *region) planCall() plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	work := time.Duration(float64(r.timing.work) * (0.8 + 0.4*r.work.Float64()))
	return r.plan(work, r.flakyCalls)
}

// planHealth returns the plan of a health check, which takes no work.
func (r *region) planHealth() plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.fault.Kind {
	case Lying:
		return plan{hung: r.hung, status: http.StatusOK}
	case Slow:
		return r.plan(r.timing.work, nil)
	default:
		return r.plan(0, r.flakyHealth)
	}
}

// plan requires r.mu.
func (r *region) plan(work time.Duration, flaky *rand.Rand) plan {
	p := plan{hung: r.hung, after: work, status: http.StatusOK}
	switch r.fault.Kind {
	case Hang:
		p.hang = true
	case Slow:
		p.after = slowFactor * work
	case Error, Lying:
		p.after, p.status = r.timing.errorDelay, http.StatusServiceUnavailable
	case Flaky:
		if flaky.Float64() < r.fault.Share {
			p.after, p.status = r.timing.errorDelay, http.StatusServiceUnavailable
		}
	case RateLimited:
		p.after, p.status = r.timing.errorDelay, http.StatusTooManyRequests
	}
	return p
}

// region finds a region by name.
func (s *Server) region(name string) (*region, error) {
	if r, ok := s.regions[name]; ok {
		return r, nil
	}
	return nil, fmt.Errorf("unknown region %q: use %s", name, oneOf(regionNames))
}

// SetFault sets a region's fault for all later calls. Hang also affects the calls in
// progress, and a hung call stays hung. Flaky restarts its sequence of failures. The
// error of an invalid region or fault lists the allowed values.
func (s *Server) SetFault(region string, f Fault) error {
	r, err := s.region(region)
	if err != nil {
		return err
	}
	if f, err = f.check(); err != nil {
		return err
	}
	r.set(f)
	return nil
}
