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
	// redirectBeforeVerdict is how long after its own trip a worker redirects calls to
	// other workers, while the verdict is not known.
	redirectBeforeVerdict = 5 * time.Second
	// redirectDelay is the shortest delay of a redirected call, and the range of its
	// jitter. The server's retry timer has a precision of about a second.
	redirectDelay = time.Second
	// maxRedirects is the attempt from which a call is refused instead, because all workers
	// that take it may be outliers.
	maxRedirects = 10
	// countLifetime is how long a count of the workers of a task queue is used.
	countLifetime = 10 * time.Second
	// seenWithin is how recently a live worker has polled its task queue. A long poll takes
	// a minute.
	seenWithin = 75 * time.Second
)

// quarantine knows the keys for which this worker is an outlier: its own calls fail while
// those of the fleet do not. It also knows whether other workers can do its work.
//
// A quarantined worker redirects calls to other workers instead of refusing them, and polls
// slowly. Its breaker recovers by itself, with a cooldown and a ramp.
type quarantine struct {
	client taskQueues
	// changed is called from one goroutine when a quarantine begins or ends, and when other
	// workers appear or disappear.
	changed func()
	wake    chan struct{}

	mu sync.Mutex
	// keys include those whose quarantine has ended, because the board keeps the dismissal.
	keys   map[breaker.Key]keyQuarantine
	queues map[string]*queue
}

// keyQuarantine is the quarantine of one key. epoch is that of the dismissal.
type keyQuarantine struct {
	epoch int64
	ended bool
}

// queue is what is known about the workers of a task queue.
type queue struct {
	// others: more than one worker polled at the time counted.
	others  bool
	counted time.Time
	// asked is when othersPoll was last called.
	asked time.Time
}

// taskQueues is the part of a client that lists the workers of a task queue.
type taskQueues interface {
	DescribeTaskQueue(ctx context.Context, name string, kind enums.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error)
}

func newQuarantine(c taskQueues) *quarantine {
	return &quarantine{client: c, wake: make(chan struct{}, 1), keys: map[breaker.Key]keyQuarantine{}, queues: map[string]*queue{}}
}

// begin starts a key's quarantine, once for each dismissal.
func (q *quarantine) begin(key breaker.Key, epoch int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if epoch > q.keys[key].epoch {
		q.keys[key] = keyQuarantine{epoch: epoch}
		q.wakeUp()
	}
}

// end ends a key's quarantine.
func (q *quarantine) end(key breaker.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k, ok := q.keys[key]; ok && !k.ended {
		k.ended = true
		q.keys[key] = k
		q.wakeUp()
	}
}

// active reports whether a key is quarantined.
func (q *quarantine) active(key breaker.Key) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k, ok := q.keys[key]
	return ok && !k.ended
}

// slowPolling reports whether a key is quarantined and other workers can do the work.
func (q *quarantine) slowPolling() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	others := false
	for _, known := range q.queues {
		others = others || known.others
	}
	for _, k := range q.keys {
		if !k.ended && others {
			return true
		}
	}
	return false
}

// othersPoll reports whether other workers are known to poll a task queue. It does not
// wait: an outdated count is renewed for the next call.
func (q *quarantine) othersPoll(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := q.queues[name]
	if known == nil {
		known = &queue{}
		q.queues[name] = known
	}
	now := time.Now()
	known.asked = now
	if now.Sub(known.counted) > countLifetime {
		q.wakeUp()
	}
	return known.others
}

// run counts workers when othersPoll needs a count, until ctx is done.
func (q *quarantine) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.wake:
		}
		for _, name := range q.outdated() {
			others := q.count(ctx, name)
			q.mu.Lock()
			known := q.queues[name]
			known.counted, known.others = time.Now(), others
			q.mu.Unlock()
		}
		q.changed()
	}
}

// wakeUp makes run check for changes.
func (q *quarantine) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// outdated returns the task queues to count again. It drops those that were not needed for
// an hour.
func (q *quarantine) outdated() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var names []string
	now := time.Now()
	for name, known := range q.queues {
		switch {
		case now.Sub(known.asked) > time.Hour:
			delete(q.queues, name)
		case now.Sub(known.counted) > countLifetime:
			names = append(names, name)
		}
	}
	return names
}

// count reports whether more than one worker polls a task queue. On an error it returns
// false.
func (q *quarantine) count(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, signalTimeout)
	defer cancel()
	described, err := q.client.DescribeTaskQueue(ctx, name, enums.TASK_QUEUE_TYPE_ACTIVITY)
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

// redirect returns the delay after which Temporal retries a refused call on another worker.
// ok is false if the call should be refused: the fleet's verdict is open, no other worker
// polls the task queue, or no retry is left.
func (p *Plugin) redirect(info activity.Info, r breaker.Refusal, now time.Time) (delay time.Duration, ok bool) {
	if r.Outage != "" || r.State == breaker.ForcedOpen || info.IsLocalActivity || info.Attempt >= maxRedirects {
		return 0, false
	}
	if !p.quarantine.active(r.Key) && now.Sub(r.Since) > redirectBeforeVerdict {
		return 0, false
	}
	if !p.quarantine.othersPoll(info.TaskQueue) {
		return 0, false
	}
	delay = redirectDelay + rand.N(redirectDelay)
	return delay, mayRetry(info, delay, now)
}
