package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

var (
	thinWorkers = flag.Int("thin.workers", 20, "the number of workers with thin traffic")
	thinPast    = flag.Duration("thin.past", 15*time.Second, "the time of healthy traffic before the fault")
)

// callEverySecond makes a call per second as a local activity, which adds no load to the
// server.
func callEverySecond(ctx workflow.Context, calls int) error {
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: 30 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	for range calls {
		workflow.ExecuteLocalActivity(ctx, "get", false)
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// assertNothingSent checks that a healthy fleet has sent no report and no hint. All its
// workers share one watch update of the board.
func assertNothingSent(t *testing.T, h *harness) {
	t.Helper()
	counts := map[enums.EventType]int{}
	events := h.client.GetWorkflowHistory(t.Context(), fleet.BoardID, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		counts[event.GetEventType()]++
	}
	assert.Zero(t, counts[enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED])
	assert.LessOrEqual(t, counts[enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED], 2)
	_, err := h.client.DescribeWorkflowExecution(t.Context(), probeworkflow.OutageID(breaker.Key{Dependency: "get", Region: region}), "")
	assert.Error(t, err, "no outage workflow exists")
}

// Each worker has too few calls to trip its own breaker in time. The evidence of all
// workers together opens every breaker.
func TestThinTraffic(t *testing.T) {
	t.Parallel()
	const latency = 5 * time.Second
	h := newHarness(t, client.Options{})
	h.addDependency("get", breaker.Config{Latency: latency, Cooldown: time.Hour, MaxCooldown: time.Hour})
	var down atomic.Bool
	var mu sync.Mutex
	var reached []time.Time
	do := func(ctx context.Context, _ bool) (string, error) {
		if !down.Load() {
			time.Sleep(50 * time.Millisecond) // the duration of a call
			return "fine", nil
		}
		mu.Lock()
		reached = append(reached, time.Now())
		mu.Unlock()
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-h.stopped:
			return "", nil
		}
	}
	all := make([]*transitions, *thinWorkers)
	for i := range all {
		all[i] = newTransitions()
		config := h.config
		config.OnTransition = all[i].record
		plugin, err := interceptor.NewPlugin(h.client, config)
		require.NoError(t, err)
		queue := fmt.Sprintf("tools-%d", i)
		w := worker.New(h.client, queue, worker.Options{Plugins: []worker.Plugin{plugin}, Identity: queue})
		w.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: "get"})
		w.RegisterWorkflow(callEverySecond)
		require.NoError(t, w.Start())
		t.Cleanup(w.Stop)
		_, err = h.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue}, callEverySecond, 1000)
		require.NoError(t, err)
	}
	time.Sleep(*thinPast) // healthy traffic
	assertNothingSent(t, h)
	faulted := time.Now()
	down.Store(true)

	key := breaker.Key{Dependency: "get", Region: region}
	var opened []time.Duration
	for _, e := range all {
		opened = append(opened, e.await(t, key, breaker.Open, faulted).At.Sub(faulted))
	}
	slices.Sort(opened)
	last := opened[len(opened)-1]
	t.Logf("%d workers: the first breaker was open %.2f s past the latency threshold, the last %.2f s",
		len(all), (opened[0] - latency).Seconds(), (last - latency).Seconds())
	time.Sleep(5 * time.Second) // no call may arrive in this time
	mu.Lock()
	defer mu.Unlock()
	for _, at := range reached {
		assert.LessOrEqual(t, at.Sub(faulted), last+arrivalGrace, "calls must not reach the dependency after the verdict")
	}

	var status probeworkflow.Status
	answer, err := h.client.QueryWorkflow(t.Context(), probeworkflow.OutageID(key), "", probeworkflow.StateQuery)
	require.NoError(t, err)
	require.NoError(t, answer.Get(&status))
	assert.Equal(t, len(all), status.Fleet, "the outage workflow counts all workers")

	signals := 0
	outage := probeworkflow.OutageID(key)
	history := h.client.GetWorkflowHistory(t.Context(), outage, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(t, err)
		if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED {
			signals++
		}
	}
	t.Logf("signals to the outage workflow: %d", signals)
}
