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

// refuse ends a call that got no permit. Nothing may wrap its error: the server
// takes a wrapped one for retryable.
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
		// Temporal adds no jitter of its own.
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
	// Benign keeps refusals out of logs and metrics: the breaker reports an outage
	// once.
	o.Category, o.Details = temporal.ApplicationErrorCategoryBenign, []any{u}
	return temporal.NewApplicationErrorWithOptions(u.Message, toolcall.DependencyUnavailable, o)
}

// mayRetry tells whether the server would retry after delay. Where it would not, a
// retryable error would only give the workflow less information.
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
	// closedRegionsFor is how long the list is used. It is only advice to a model.
	closedRegionsFor = time.Second
	// maxLookedAt bounds how many of a process's breakers are searched.
	maxLookedAt = 1000
)

// closedRegions gives the other regions of d whose breakers in this process are
// closed.
func (d *dependency) closedRegions(breakers *breaker.Registry, now time.Duration, but string) []string {
	c := &d.closed
	c.mu.Lock()
	defer c.mu.Unlock()
	if now >= c.until {
		c.regions, c.until = nil, now+closedRegionsFor
		all := breakers.All()
		for _, b := range all[:min(len(all), maxLookedAt)] {
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

// maxTallied bounds a tally; the oldest entries go first.
const maxTallied = 10_000

// tally counts by key. The zero tally is empty.
type tally[K comparable] struct {
	mu     sync.Mutex
	counts map[K]int
	order  []K
	next   int
}

// add counts one more and gives the sum.
func (t *tally[K]) add(key K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[K]int{}
	}
	if _, known := t.counts[key]; !known {
		if len(t.order) < maxTallied {
			t.order = append(t.order, key)
		} else {
			delete(t.counts, t.order[t.next])
			t.order[t.next] = key
			t.next = (t.next + 1) % maxTallied
		}
	}
	t.counts[key]++
	return t.counts[key]
}

func (t *tally[K]) count(key K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[key]
}

// clear takes the count back to 0.
func (t *tally[K]) clear(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.counts[key]; known {
		t.counts[key] = 0
	}
}
