package carrier

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// CallKind says who made a call.
type CallKind string

// The kinds of call. A call with the header X-Call-Kind: probe is a probe, any other
// API call is a customer's. A request to the health endpoint is neither.
const (
	Customer    CallKind = "customer"
	Probe       CallKind = "probe"
	HealthCheck CallKind = "health"
)

// maxCalls bounds the recorded calls, which take about 10 MB. Counts are unbounded.
const maxCalls = 100_000

// Call is one request that reached the server.
type Call struct {
	At     time.Time `json:"at"`               // time of arrival
	Region string    `json:"region,omitempty"` // empty: the order database
	Tool   string    `json:"tool"`             // the tool that made the request, or "health"
	Kind   CallKind  `json:"kind"`
	Status int       `json:"status"` // HTTP status of the answer; 0: not answered
}

// Counts are the calls to one region, or to the order database, since the start
// or the last reset.
type Counts struct {
	Calls    map[CallKind]int `json:"calls"`     // by kind, including unanswered calls
	Answers  map[int]int      `json:"answers"`   // by HTTP status
	InFlight int              `json:"in_flight"` // calls in progress, including hung calls; not reset
}

// callLog records calls. Calls are numbered from 0. Ending a call that was reset or
// overwritten changes no other call.
type callLog struct {
	mu     sync.Mutex
	first  uint64 // number of the first call since the last reset
	next   uint64
	calls  []Call // a ring buffer; call n is at (n-first) % maxCalls
	counts map[string]*Counts
}

func newCallLog() *callLog {
	return &callLog{counts: make(map[string]*Counts)}
}

// start records a call and returns its number for end.
func (l *callLog) start(c Call) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.next
	l.next++
	if at := (n - l.first) % maxCalls; at < uint64(len(l.calls)) {
		l.calls[at] = c
	} else {
		l.calls = append(l.calls, c)
	}
	counts := l.region(c.Region)
	counts.Calls[c.Kind]++
	counts.InFlight++
	return n
}

// end records the end of call n with its status. 0: the call was not answered.
func (l *callLog) end(n uint64, region string, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := l.region(region)
	counts.InFlight--
	if status == 0 || n < l.first {
		return
	}
	counts.Answers[status]++
	if l.next-n <= maxCalls {
		l.calls[(n-l.first)%maxCalls].Status = status
	}
}

// region requires l.mu.
func (l *callLog) region(region string) *Counts {
	counts, ok := l.counts[region]
	if !ok {
		counts = &Counts{Calls: make(map[CallKind]int), Answers: make(map[int]int)}
		l.counts[region] = counts
	}
	return counts
}

// snapshot returns a region's counts, which the caller owns.
func (l *callLog) snapshot(region string) Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := *l.region(region)
	c.Calls, c.Answers = maps.Clone(c.Calls), maps.Clone(c.Answers)
	return c
}

// all returns the recorded calls in order of arrival.
func (l *callLog) all() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) < maxCalls {
		return slices.Clone(l.calls)
	}
	oldest := (l.next - l.first) % maxCalls
	return slices.Concat(l.calls[oldest:], l.calls[:oldest])
}

func (l *callLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first, l.calls = l.next, nil
	for _, c := range l.counts {
		clear(c.Calls)
		clear(c.Answers)
	}
}

// Calls returns the calls since the start or the last reset, in order of arrival. It
// holds the latest 100,000.
func (s *Server) Calls() []Call { return s.calls.all() }

// Count returns how many of Calls match.
func (s *Server) Count(match func(Call) bool) int {
	n := 0
	for _, c := range s.calls.all() {
		if match(c) {
			n++
		}
	}
	return n
}

// ResetCounts removes all calls and counts. Calls in progress are still answered, but
// not counted.
func (s *Server) ResetCounts() { s.calls.reset() }
