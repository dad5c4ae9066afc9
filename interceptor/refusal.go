package interceptor

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// refuse ends a call that got no permit. Its error must not be wrapped, because the server
// would then retry it.
func (p *Plugin) refuse(t *tool, info activity.Info, r breaker.Refusal) (any, error) {
	now := p.config.Clock.Now()
	d := t.dependency
	about := toolcall.About{
		Tool: t.name, Tools: d.Tools, Required: d.Required, Wording: d.Wording,
	}
	if delay, ok := p.redirect(info, r, now); ok {
		return nil, unavailableError(toolcall.NewUnavailable(about, r, now), temporal.ApplicationErrorOptions{NextRetryDelay: delay})
	}
	if info.WorkflowExecution.RunID != "" {
		about.Refusals = p.refusals.add(runOf(info, r.Key))
	}
	if d.Region != nil {
		about.RegionFrom = toolcall.RegionFromInput
		about.Alternatives = d.closedRegions(p.breakers, p.config.Clock.Elapsed(), r.Key.Region)
	}
	u := toolcall.NewUnavailable(about, r, now)
	if d.WhenOpen == Wait {
		left := u.RetryAt.Sub(now)
		// Temporal adds no jitter.
		delay := left + rand.N(max(time.Second, left/10))
		if mayRetry(info, delay, now) {
			return nil, unavailableError(u, temporal.ApplicationErrorOptions{NextRetryDelay: delay})
		}
	}
	if t.typed.Load() {
		return toolcall.Result[json.RawMessage]{Unavailable: &u}, nil
	}
	return nil, unavailableError(u, temporal.ApplicationErrorOptions{NonRetryable: true})
}

func unavailableError(u toolcall.Unavailable, o temporal.ApplicationErrorOptions) error {
	// Benign keeps refusals out of logs and metrics, where an outage appears once.
	o.Category, o.Details = temporal.ApplicationErrorCategoryBenign, []any{u}
	return temporal.NewApplicationErrorWithOptions(u.Message, toolcall.DependencyUnavailable, o)
}

// mayRetry reports whether the server would retry after delay. If not, the workflow must
// get a final refusal, because a retryable one tells it less.
func mayRetry(info activity.Info, delay time.Duration, now time.Time) bool {
	if limit := info.ScheduleToCloseTimeout; limit > 0 && info.ScheduledTime.Add(limit).Sub(now) <= delay {
		return false
	}
	policy := info.RetryPolicy
	return policy == nil || (policy.MaximumAttempts == 0 || info.Attempt < policy.MaximumAttempts) &&
		!slices.Contains(policy.NonRetryableErrorTypes, toolcall.DependencyUnavailable)
}

// closedRegions caches which regions of a dependency are closed.
type closedRegions struct {
	mu      sync.Mutex
	until   time.Duration
	regions []string
}

const (
	// closedRegionsFor is how long the list is used. The list is only advice to a model.
	closedRegionsFor = time.Second
	// maxSearched limits how many breakers of the process are searched.
	maxSearched = 1000
)

// closedRegions returns the other regions of d whose breakers in this process are closed.
func (d *dependency) closedRegions(breakers *breaker.Registry, now time.Duration, but string) []string {
	c := &d.closed
	c.mu.Lock()
	defer c.mu.Unlock()
	if now >= c.until {
		c.regions, c.until = nil, now+closedRegionsFor
		all := breakers.All()
		for _, b := range all[:min(len(all), maxSearched)] {
			if key := b.Key(); key.Dependency == d.Name && b.Snapshot().State == breaker.Closed {
				c.regions = append(c.regions, key.Region)
			}
		}
		slices.Sort(c.regions)
	}
	return slices.DeleteFunc(slices.Clone(c.regions), func(region string) bool { return region == but })
}

// run is one workflow run and a key that it calls.
type run struct {
	id  string
	key breaker.Key
}

func runOf(info activity.Info, key breaker.Key) run { return run{info.WorkflowExecution.RunID, key} }

// execution is one activity with all its attempts.
type execution struct{ runID, activityID string }

func executionOf(info activity.Info) execution {
	return execution{info.WorkflowExecution.RunID, info.ActivityID}
}

// maxCounted limits the size of a counter. The oldest keys are dropped first.
const maxCounted = 10_000

// counter counts by key. The zero counter is empty.
type counter[K comparable] struct {
	mu     sync.Mutex
	counts map[K]int
	order  []K
	next   int
}

// add increments the count of key and returns it.
func (t *counter[K]) add(key K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[K]int{}
	}
	if _, known := t.counts[key]; !known {
		if len(t.order) < maxCounted {
			t.order = append(t.order, key)
		} else {
			delete(t.counts, t.order[t.next])
			t.order[t.next] = key
			t.next = (t.next + 1) % maxCounted
		}
	}
	t.counts[key]++
	return t.counts[key]
}

func (t *counter[K]) count(key K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[key]
}

// clear sets the count of key to 0.
func (t *counter[K]) clear(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.counts[key]; known {
		t.counts[key] = 0
	}
}
