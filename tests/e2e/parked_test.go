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

var parkedRuns = flag.Int("parked", 200, "how many runs wait for one dependency")

// Woken together, parked runs would do to a dependency that has just come back
// what the ramp is there to prevent.
func TestParkedRunsGoOnInStepWithTheRamp(t *testing.T) {
	t.Parallel()
	runs := *parkedRuns
	b := newBench(t, client.Options{})
	config := breaker.Config{MinSamples: 2, Window: time.Hour, Cooldown: 2 * time.Second, MaxCooldown: 4 * time.Second, RampStep: 5 * time.Second}
	var down atomic.Bool // until all of them are parked
	down.Store(true)
	b.tool("recovers", config, func(context.Context, bool) (string, error) {
		return obliging(nil, down.Load())
	}, func(d *interceptor.Dependency) { d.Probe = interceptor.Synthetic("recovers", false) })
	var mu sync.Mutex
	var woken []time.Time
	b.activities = append(b.activities, func(r worker.Registry) {
		r.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
			recovered, err := toolcall.AwaitRecovery(ctx, "recovers", region, time.Hour)
			if recovered && !workflow.IsReplaying(ctx) {
				mu.Lock()
				woken = append(woken, time.Now())
				mu.Unlock()
			}
			return err
		}, workflow.RegisterOptions{Name: "parked"})
	})
	b.open()
	b.trip(t, "recovers", 2)

	begun := time.Now()
	var last client.WorkflowRun
	for range runs {
		run, err := b.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "tools"}, "parked")
		require.NoError(t, err)
		last = run
	}
	key := breaker.Key{Dependency: "recovers", Region: region}
	t.Logf("parked %d runs in %v", runs, time.Since(begun).Round(time.Millisecond))
	down.Store(false)

	var recovering, closed breaker.Transition
	require.Eventually(t, func() bool {
		edges := b.edges.of(key)
		if n := len(edges); edges[n-1].To == breaker.Closed {
			recovering, closed = edges[n-2], edges[n-1]
			return true
		}
		return false
	}, patience, 100*time.Millisecond)
	require.Equal(t, breaker.Recovering, recovering.To)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(woken) == runs
	}, 2*time.Minute+time.Duration(runs)*50*time.Millisecond, 100*time.Millisecond, "nobody is left")

	slices.SortFunc(woken, time.Time.Compare)
	assert.True(t, woken[0].After(recovering.At), "nobody went on before traffic returned")
	for step, share := range config.WithDefaults().Ramp {
		end := recovering.At.Add(time.Duration(step+1) * config.RampStep)
		if end.After(closed.At) {
			end = closed.At
		}
		gone, _ := slices.BinarySearchFunc(woken, end, time.Time.Compare)
		allowed := float64(runs*share) / 100
		t.Logf("at %3d%%: %d of %d had gone on, the last %v after the recovery began", share, gone, runs, woken[max(0, gone-1)].Sub(recovering.At).Round(time.Millisecond))
		assert.LessOrEqual(t, float64(gone), allowed+4*math.Sqrt(allowed), "at %d%%", share)
	}
	t.Logf("the last went on %v after the recovery began, closed after %v",
		woken[runs-1].Sub(recovering.At).Round(time.Millisecond), closed.At.Sub(recovering.At).Round(time.Millisecond))

	events := 0
	history := b.client.GetWorkflowHistory(t.Context(), last.GetID(), last.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		_, err := history.Next()
		require.NoError(t, err)
		events++
	}
	assert.LessOrEqual(t, events, 12, "however long it was parked")
}
