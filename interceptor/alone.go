package interceptor

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"

	"github.com/toolbreaker/toolbreaker/breaker"
)

const (
	// awaitVerdict is how long after a trip of its own a worker hands calls on to
	// others, before the fleet has said whether it is alone with its trouble.
	awaitVerdict = 5 * time.Second
	// handOnAfter is the shortest delay with which a call is handed on, and the
	// spread of it: the server's retry timer is about a second coarse.
	handOnAfter = time.Second
	// maxHandOns is the attempt from which a call is not handed on any more: the
	// workers that take it may all be in trouble.
	maxHandOns = 10
	// countedFor is how long a count of a task queue's workers serves.
	countedFor = 10 * time.Second
	// seenWithin is how recently a worker that is alive has polled: a long poll
	// takes a minute.
	seenWithin = 75 * time.Second
)

// alone knows the keys that this worker is in trouble with while the fleet is
// not, and whether others could do its work.
//
// Such a worker is quarantined: it hands its calls on instead of refusing them,
// and polls less. It comes back as any breaker does that goes its way alone: a
// cooldown, a ramp.
type alone struct {
	client taskQueues
	// changed is called, by itself, when a quarantine begins or ends, and when others
	// begin or cease to poll.
	changed func()
	wake    chan struct{}

	mu sync.Mutex
	// quarantines hold the epoch of the dismissal, also of those that have ended:
	// the board keeps saying it.
	quarantines map[breaker.Key]quarantine
	queues      map[string]*queue
}

type quarantine struct {
	epoch int64
	ended bool
}

// queue is what is known of a task queue's workers.
type queue struct {
	others  bool
	counted time.Time
	// asked is when somebody last wanted to know.
	asked time.Time
}

// taskQueues is the part of a client that counts workers.
type taskQueues interface {
	DescribeTaskQueue(ctx context.Context, name string, kind enums.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error)
}

func newAlone(c taskQueues) *alone {
	return &alone{client: c, wake: make(chan struct{}, 1), quarantines: map[breaker.Key]quarantine{}, queues: map[string]*queue{}}
}

// dismissed begins a quarantine, once for each dismissal.
func (a *alone) dismissed(key breaker.Key, epoch int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if epoch > a.quarantines[key].epoch {
		a.quarantines[key] = quarantine{epoch: epoch}
		a.stir()
	}
}

// over ends a key's quarantine.
func (a *alone) over(key breaker.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q, ok := a.quarantines[key]; ok && !q.ended {
		q.ended = true
		a.quarantines[key] = q
		a.stir()
	}
}

func (a *alone) quarantined(key breaker.Key) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	q, ok := a.quarantines[key]
	return ok && !q.ended
}

// any tells whether any key is quarantined, and others poll a task queue that
// was asked about.
func (a *alone) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	others := false
	for _, q := range a.queues {
		others = others || q.others
	}
	for _, q := range a.quarantines {
		if !q.ended && others {
			return true
		}
	}
	return false
}

// others tells whether other workers are known to poll a task queue. It does not
// wait: what is not known, or not any more, is found out for the next call.
func (a *alone) others(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.queues[name]
	if q == nil {
		q = &queue{}
		a.queues[name] = q
	}
	now := time.Now()
	q.asked = now
	if now.Sub(q.counted) > countedFor {
		a.stir()
	}
	return q.others
}

// run counts workers when somebody wants to know.
func (a *alone) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		for _, name := range a.stale() {
			others := a.count(ctx, name)
			a.mu.Lock()
			q := a.queues[name]
			q.counted = time.Now()
			q.others = others
			a.mu.Unlock()
		}
		a.changed()
	}
}

// stir has run look at what has changed.
func (a *alone) stir() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// stale gives the task queues to count anew, and forgets those that nobody asks
// about.
func (a *alone) stale() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	now := time.Now()
	for name, q := range a.queues {
		switch {
		case now.Sub(q.asked) > time.Hour:
			delete(a.queues, name)
		case now.Sub(q.counted) > countedFor:
			names = append(names, name)
		}
	}
	return names
}

// count tells whether more than one worker polls a task queue. One that cannot
// be counted has none.
func (a *alone) count(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	described, err := a.client.DescribeTaskQueue(ctx, name, enums.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return false
	}
	seen := map[string]bool{}
	for _, p := range described.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < seenWithin {
			seen[p.GetIdentity()] = true
		}
	}
	return len(seen) > 1
}

// handOn gives the delay after which Temporal should try another worker, where
// that is better than a refusal: the trouble may be this worker's own, others
// poll its task queue, and a retry is left.
func (p *Plugin) handOn(info activity.Info, r breaker.Refusal, now time.Time) (time.Duration, bool) {
	if r.Outage != "" || r.State == breaker.ForcedOpen || info.IsLocalActivity || info.Attempt >= maxHandOns {
		return 0, false
	}
	if !p.alone.quarantined(r.Key) && now.Sub(r.Since) > awaitVerdict {
		return 0, false
	}
	if !p.alone.others(info.TaskQueue) {
		return 0, false
	}
	delay := handOnAfter + rand.N(handOnAfter)
	return delay, mayRetry(info, delay, now)
}
