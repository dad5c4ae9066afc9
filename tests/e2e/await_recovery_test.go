package e2e_test

import (
	"context"
	"flag"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

var waitingRuns = flag.Int("waiting.runs", 200, "the number of runs that wait for one dependency")

// The ramp also limits the runs that wait in AwaitRecovery. All at once, they could
// overload a dependency that has just recovered.
func TestAwaitRecoveryFollowsTheRamp(t *testing.T) {
	t.Parallel()
	runs := *waitingRuns
	h := newHarness(t, client.Options{})
	config := breaker.Config{MinSamples: 2, Window: time.Hour, Cooldown: 2 * time.Second, MaxCooldown: 4 * time.Second, RampStep: 5 * time.Second}
	var down atomic.Bool // until all runs wait
	down.Store(true)
	h.addTool("recovers", config, func(ctx context.Context, _ bool) (string, error) {
		return failOnRequest(ctx, down.Load())
	}, func(d *interceptor.Dependency) { d.Probe = interceptor.Synthetic("recovers", false) })
	var mu sync.Mutex
	var resumed []time.Time
	h.activities = append(h.activities, func(r worker.Registry) {
		r.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
			recovered, err := toolcall.AwaitRecovery(ctx, "recovers", region, time.Hour)
			if recovered && !workflow.IsReplaying(ctx) {
				mu.Lock()
				resumed = append(resumed, time.Now())
				mu.Unlock()
			}
			return err
		}, workflow.RegisterOptions{Name: "await-recovery"})
	})
	h.start()
	h.trip(t, "recovers", 2)

	started := time.Now()
	var last client.WorkflowRun
	for range runs {
		run, err := h.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "tools"}, "await-recovery")
		require.NoError(t, err)
		last = run
	}
	key := breaker.Key{Dependency: "recovers", Region: region}
	t.Logf("started %d runs in %v", runs, time.Since(started).Round(time.Millisecond))
	down.Store(false)

	var recovering, closed breaker.Transition
	require.Eventually(t, func() bool {
		transitions := h.transitions.of(key)
		if n := len(transitions); transitions[n-1].To == breaker.Closed {
			recovering, closed = transitions[n-2], transitions[n-1]
			return true
		}
		return false
	}, waitTimeout, 100*time.Millisecond)
	require.Equal(t, breaker.Recovering, recovering.To)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(resumed) == runs
	}, 2*time.Minute+time.Duration(runs)*50*time.Millisecond, 100*time.Millisecond, "all runs resume")

	slices.SortFunc(resumed, time.Time.Compare)
	assert.True(t, resumed[0].After(recovering.At), "no run resumes before the recovery begins")
	for step, share := range config.WithDefaults().Ramp {
		end := recovering.At.Add(time.Duration(step+1) * config.RampStep)
		if end.After(closed.At) {
			end = closed.At
		}
		count, _ := slices.BinarySearchFunc(resumed, end, time.Time.Compare)
		allowed := float64(runs*share) / 100
		t.Logf("at %3d%%: %d of %d runs had resumed, the last %v after the recovery began", share, count, runs, resumed[max(0, count-1)].Sub(recovering.At).Round(time.Millisecond))
		assert.LessOrEqual(t, float64(count), allowed+4*math.Sqrt(allowed), "at %d%%", share)
	}
	t.Logf("the last run resumed %v after the recovery began, closed after %v",
		resumed[runs-1].Sub(recovering.At).Round(time.Millisecond), closed.At.Sub(recovering.At).Round(time.Millisecond))

	events := 0
	history := h.client.GetWorkflowHistory(t.Context(), last.GetID(), last.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		_, err := history.Next()
		require.NoError(t, err)
		events++
	}
	assert.LessOrEqual(t, events, 12, "events do not depend on the length of the wait")
}
