package carrier

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// CallKind is who is behind a call.
type CallKind string

// The kinds of call. The header X-Call-Kind: probe makes a call a probe; without
// it a call is a customer's. A request to the health endpoint is neither.
const (
	Customer    CallKind = "customer"
	Probe       CallKind = "probe"
	HealthCheck CallKind = "health"
)

// maxCalls is how many calls the server remembers one by one: about 10 MB. The
// counts know no limit.
const maxCalls = 100_000

// Call is one request that reached the server.
type Call struct {
	At     time.Time `json:"at"`               // arrival
	Region string    `json:"region,omitempty"` // empty: the order database
	Tool   string    `json:"tool"`             // the tool that makes this request, or health
	Kind   CallKind  `json:"kind"`
	Status int       `json:"status"` // HTTP status of the answer; 0: not answered, yet or ever
}

// Counts are the calls to one region, or to the order database, since the start
// or the last reset.
type Counts struct {
	Calls    map[CallKind]int `json:"calls"`     // by kind, answered or not
	Answers  map[int]int      `json:"answers"`   // by HTTP status
	InFlight int              `json:"in_flight"` // open now, hung ones included, whatever was reset
}

// journal remembers calls. Calls are numbered from 0; a number stays valid, and
// harmless, when its call has been reset or overwritten.
type journal struct {
	mu     sync.Mutex
	first  uint64 // number of the first call since the last reset
	next   uint64
	calls  []Call // a ring once it is full: call n is at (n-first) % maxCalls
	counts map[string]*Counts
}

func newJournal() *journal {
	return &journal{counts: make(map[string]*Counts)}
}

// arrive records a call and returns its number for leave.
func (j *journal) arrive(c Call) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.next
	j.next++
	if at := (n - j.first) % maxCalls; at < uint64(len(j.calls)) {
		j.calls[at] = c
	} else {
		j.calls = append(j.calls, c)
	}
	counts := j.of(c.Region)
	counts.Calls[c.Kind]++
	counts.InFlight++
	return n
}

// leave records the end of call n: its status, or 0 for one that ended unanswered.
func (j *journal) leave(n uint64, region string, status int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	counts := j.of(region)
	counts.InFlight--
	if status == 0 || n < j.first {
		return
	}
	counts.Answers[status]++
	if j.next-n <= maxCalls {
		j.calls[(n-j.first)%maxCalls].Status = status
	}
}

// of needs j.mu.
func (j *journal) of(region string) *Counts {
	counts, ok := j.counts[region]
	if !ok {
		counts = &Counts{Calls: make(map[CallKind]int), Answers: make(map[int]int)}
		j.counts[region] = counts
	}
	return counts
}

// snapshot returns a region's counts, which the caller owns.
func (j *journal) snapshot(region string) Counts {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := *j.of(region)
	c.Calls, c.Answers = maps.Clone(c.Calls), maps.Clone(c.Answers)
	return c
}

// all returns the remembered calls in the order of their arrival.
func (j *journal) all() []Call {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.calls) < maxCalls {
		return slices.Clone(j.calls)
	}
	oldest := (j.next - j.first) % maxCalls
	return slices.Concat(j.calls[oldest:], j.calls[:oldest])
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.first, j.calls = j.next, nil
	for _, c := range j.counts {
		clear(c.Calls)
		clear(c.Answers)
	}
}

// Calls returns what reached the server since its start or the last reset, in the
// order of arrival: the latest 100,000 calls.
func (s *Server) Calls() []Call { return s.journal.all() }

// Count returns how many of Calls match.
func (s *Server) Count(match func(Call) bool) int {
	n := 0
	for _, c := range s.journal.all() {
		if match(c) {
			n++
		}
	}
	return n
}

// ResetCounts forgets all calls. Those still open are answered as before and not
// counted again.
func (s *Server) ResetCounts() { s.journal.reset() }
