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

// ordersName is the order database's place in the URL and among the regions'
// random sequences.
const ordersName = "orders"

// Durations at speed 1. The work of a carrier's call is an option.
const (
	orderWork  = 300 * time.Millisecond
	quickly    = 50 * time.Millisecond
	retryAfter = 5 * time.Second
	slowness   = 10 // a slow region's multiple of its work
)

// pace is a region's durations at the server's speed.
type pace struct {
	work       time.Duration // mean of a healthy call
	quickly    time.Duration // until a call is turned away
	retryAfter int           // whole seconds, at least 1: HTTP knows nothing finer
}

func newPace(work time.Duration, speed float64) pace {
	at := func(d time.Duration) time.Duration { return time.Duration(float64(d) / speed) }
	return pace{
		work:       at(work),
		quickly:    at(quickly),
		retryAfter: max(1, int(math.Ceil(at(retryAfter).Seconds()))),
	}
}

// region is what can fail by itself.
type region struct {
	name string
	pace pace
	seed uint64

	mu     sync.Mutex
	fault  Fault
	hung   chan struct{} // closed when a hang begins; a new one serves the calls after it
	spread *rand.Rand    // of the work
	// A flaky region's sequences start anew with each fault, and health checks
	// draw from their own, so that they do not change which calls fail.
	callDice, healthDice *rand.Rand
}

func newRegion(name string, p pace, seed uint64) *region {
	r := &region{name: name, pace: p, seed: seed, fault: Fault{Kind: Healthy}, hung: make(chan struct{})}
	r.spread = r.random("spread")
	return r
}

// random starts the region's sequence for a purpose from its beginning.
func (r *region) random(purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.name + "/" + purpose))
	return rand.New(rand.NewPCG(r.seed, h.Sum64()))
}

func (r *region) set(f Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = f
	r.callDice, r.healthDice = r.random("calls"), r.random("health")
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

// plan is what one call meets, decided when it arrives.
type plan struct {
	never  bool            // it will not be answered
	hung   <-chan struct{} // closed: it will not be answered any more
	after  time.Duration
	status int // 200: the answer is the work's; else a refusal
}

// planCall decides an API call.
func (r *region) planCall() plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	work := time.Duration(float64(r.pace.work) * (0.8 + 0.4*r.spread.Float64()))
	return r.decide(work, r.callDice)
}

// planHealth decides a health check, which is no work.
func (r *region) planHealth() plan {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.fault.Kind {
	case Lying:
		return plan{hung: r.hung, status: http.StatusOK}
	case Slow:
		return r.decide(r.pace.work, nil)
	default:
		return r.decide(0, r.healthDice)
	}
}

// decide needs r.mu.
func (r *region) decide(work time.Duration, dice *rand.Rand) plan {
	p := plan{hung: r.hung, after: work, status: http.StatusOK}
	switch r.fault.Kind {
	case Hang:
		p.never = true
	case Slow:
		p.after = slowness * work
	case Error, Lying:
		p.after, p.status = r.pace.quickly, http.StatusServiceUnavailable
	case Flaky:
		if dice.Float64() < r.fault.Share {
			p.after, p.status = r.pace.quickly, http.StatusServiceUnavailable
		}
	case RateLimited:
		p.after, p.status = r.pace.quickly, http.StatusTooManyRequests
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

// SetFault changes how a region behaves from the next call on; Hang also takes the
// calls being worked on. A hung call stays hung, whatever is set later. A Flaky
// region starts its sequence of failures anew. The error of an unknown region,
// an unknown kind or a share out of range names what is allowed.
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
