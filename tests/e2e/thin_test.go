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
	thinWorkers = flag.Int("thin.workers", 20, "how many workers with thin traffic there are")
	thinPast    = flag.Duration("thin.past", 15*time.Second, "how long they have been at work before the fault")
)

// trickle makes a call a second for so long, as local activities: the server has
// nothing to do with them.
func trickle(ctx workflow.Context, calls int) error {
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

// costsNothing asserts that a healthy fleet has sent nothing: its board runs, and
// has one wait that all have joined.
func costsNothing(t *testing.T, b *bench) {
	t.Helper()
	counts := map[enums.EventType]int{}
	events := b.client.GetWorkflowHistory(t.Context(), fleet.BoardID, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		counts[event.GetEventType()]++
	}
	assert.Zero(t, counts[enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED])
	assert.LessOrEqual(t, counts[enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED], 2)
	_, err := b.client.DescribeWorkflowExecution(t.Context(), probeworkflow.OutageID(breaker.Key{Dependency: "get", Region: region}), "")
	assert.Error(t, err, "nothing was suspected")
}

// None of them sees enough to trip by itself in time; together they have seen an
// outage.
func TestThinTrafficCountsTogether(t *testing.T) {
	t.Parallel()
	const latency = 5 * time.Second
	b := newBench(t, client.Options{})
	b.guard("get", breaker.Config{Latency: latency, Cooldown: time.Hour, MaxCooldown: time.Hour})
	var down atomic.Bool
	var mu sync.Mutex
	var reached []time.Time
	do := func(ctx context.Context, _ bool) (string, error) {
		if !down.Load() {
			time.Sleep(50 * time.Millisecond) // how long a call takes
			return "fine", nil
		}
		mu.Lock()
		reached = append(reached, time.Now())
		mu.Unlock()
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-b.free:
			return "", nil
		}
	}
	all := make([]*edges, *thinWorkers)
	for i := range all {
		all[i] = newEdges()
		config := b.config
		config.OnTransition = all[i].record
		plugin, err := interceptor.NewPlugin(b.client, config)
		require.NoError(t, err)
		queue := fmt.Sprintf("tools-%d", i)
		w := worker.New(b.client, queue, worker.Options{Plugins: []worker.Plugin{plugin}, Identity: queue})
		w.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: "get"})
		w.RegisterWorkflow(trickle)
		require.NoError(t, w.Start())
		t.Cleanup(w.Stop)
		_, err = b.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue}, trickle, 1000)
		require.NoError(t, err)
	}
	time.Sleep(*thinPast) // their past
	costsNothing(t, b)
	broke := time.Now()
	down.Store(true)

	key := breaker.Key{Dependency: "get", Region: region}
	var opened []time.Duration
	for _, e := range all {
		opened = append(opened, e.await(t, key, breaker.Open, broke).At.Sub(broke))
	}
	slices.Sort(opened)
	last := opened[len(opened)-1]
	t.Logf("%d workers: the first breaker was open %.2f s past the latency threshold, the last %.2f s",
		len(all), (opened[0] - latency).Seconds(), (last - latency).Seconds())
	time.Sleep(5 * time.Second) // in which nobody must call
	mu.Lock()
	defer mu.Unlock()
	for _, at := range reached {
		assert.LessOrEqual(t, at.Sub(broke), last+wireGrace, "a call reached the dependency after the verdict")
	}

	var status probeworkflow.Status
	answer, err := b.client.QueryWorkflow(t.Context(), probeworkflow.OutageID(key), "", probeworkflow.StateQuery)
	require.NoError(t, err)
	require.NoError(t, answer.Get(&status))
	assert.Equal(t, len(all), status.Fleet, "the fleet was counted")

	signals := 0
	outage := probeworkflow.OutageID(key)
	history := b.client.GetWorkflowHistory(t.Context(), outage, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		require.NoError(t, err)
		if event.GetEventType() == enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED {
			signals++
		}
	}
	t.Logf("signals to the outage workflow: %d", signals)
}
