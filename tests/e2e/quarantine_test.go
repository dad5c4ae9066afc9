package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

var measurePolling = flag.Bool("polling", false, "also measure a quarantined worker under load, with and without slow polling")

// defaultPolling is a plugin that restores the SDK's tuner. After the breaker's plugin, it
// disables the slow polling of a quarantined worker.
type defaultPolling struct{ worker.PluginBase }

func (defaultPolling) Name() string { return "default-polling" }

func (defaultPolling) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) (err error) {
	o.WorkerOptions.Tuner, err = worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{NumActivitySlots: 5})
	return err
}

// workerFleet has several workers of one task queue, each with its own plugin. The first
// worker cannot reach the dependency.
type workerFleet struct {
	*harness
	plugins []*interceptor.Plugin
	// unavailable counts the refused runs.
	unavailable atomic.Int64
}

func newWorkerFleet(t *testing.T, workers int, more ...worker.Plugin) *workerFleet {
	t.Helper()
	f := &workerFleet{harness: newHarness(t, client.Options{})}
	f.addDependency("get", breaker.Config{MinSamples: 10, Cooldown: time.Hour, MaxCooldown: time.Hour})
	for i := range workers {
		plugin, err := interceptor.NewPlugin(f.client, f.config)
		require.NoError(t, err)
		f.plugins = append(f.plugins, plugin)
		do := func(context.Context, bool) (string, error) {
			if i == 0 {
				return "", errors.New("no such host")
			}
			time.Sleep(500 * time.Millisecond) // the duration of a call
			return "fine", nil
		}
		f.startWorker("tools", worker.Options{
			Identity: fmt.Sprintf("worker-%d", i), Plugins: append([]worker.Plugin{plugin}, more...),
			MaxConcurrentActivityExecutionSize: 5, DisableEagerActivities: true,
		}, func(r worker.Registry) { r.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: "get"}) })
	}
	return f
}

// table returns the board's table.
func (h *harness) table() fleet.Table {
	h.t.Helper()
	var table fleet.Table
	value, err := h.client.QueryWorkflow(h.t.Context(), fleet.BoardID, "", fleet.TableQuery)
	require.NoError(h.t, err)
	require.NoError(h.t, value.Get(&table))
	return table
}

// tasks returns how many tasks each worker has taken.
func (f *workerFleet) tasks() []int64 {
	var all []int64
	for _, p := range f.plugins {
		s := snapshotOf(p, "get")
		all = append(all, s.Counted+s.Refused)
	}
	return all
}

// startRuns starts a run per interval, unless the maximum of concurrent runs is reached.
// stop ends this, waits for all runs and returns their number. Each run must end with a
// value or a refusal.
func (f *workerFleet) startRuns(interval time.Duration, concurrent int) (stop func() int) {
	quit, slots := make(chan struct{}), make(chan struct{}, concurrent)
	var done, runs sync.WaitGroup
	n := 0
	done.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
			}
			select {
			case slots <- struct{}{}:
			default:
				continue
			}
			n++
			runs.Go(func() {
				defer func() { <-slots }()
				run, err := f.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: "tools"}, makeCall, callSpec{Tool: "get", Options: withRetries(0)})
				var got callResult
				if assert.NoError(f.t, err) && assert.NoError(f.t, run.Get(context.Background(), &got)) {
					if got.outcome() == toolcall.Refused {
						f.unavailable.Add(1)
						return
					}
					assert.Equal(f.t, toolcall.OK, got.outcome(), "%+v", got)
				}
			})
		}
	})
	end := sync.OnceFunc(func() {
		close(quit)
		done.Wait()
		runs.Wait()
	})
	f.t.Cleanup(end)
	return func() int {
		end()
		return n
	}
}

// A worker that alone cannot reach the dependency is quarantined. Other workers execute
// its tasks, so no run is refused. Its calls end at once, so it must poll slowly to take
// less than its share of the tasks.
func TestQuarantineOfOneFailingWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		interval   time.Duration
		concurrent int
		more       []worker.Plugin
	}{
		{"ten a second", 100 * time.Millisecond, 20, nil},
		// These two measure shares; see -polling. On a busy server, the verdict can take
		// longer than a worker waits for it.
		{"overload", 10 * time.Millisecond, 100, nil},
		{"overload, default polling", 10 * time.Millisecond, 100, []worker.Plugin{defaultPolling{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.interval < 100*time.Millisecond && !*measurePolling {
				t.Skip("only with -polling")
			}
			f := newWorkerFleet(t, 5, c.more...)
			stop := f.startRuns(c.interval, c.concurrent)
			var verdict fleet.Entry
			require.Eventually(t, func() bool {
				// The board may not have started yet.
				value, err := f.client.QueryWorkflow(context.Background(), fleet.BoardID, "", fleet.TableQuery)
				var table fleet.Table
				if err != nil || value.Get(&table) != nil {
					return false
				}
				for _, e := range table.Entries {
					verdict = e
				}
				return verdict.Dismissed
			}, waitTimeout, 50*time.Millisecond)
			dismissed := time.Now()
			require.Len(t, verdict.Outliers, 1)
			require.Equal(t, breaker.Open, snapshotOf(f.plugins[0], "get").State)

			before := f.tasks()
			time.Sleep(20 * time.Second) // tasks are counted in this time
			after := f.tasks()
			runs := stop()
			// A worker waits five seconds for the verdict. On a busy machine it can come later;
			// calls are refused until then.
			tripped := f.transitions.of(breaker.Key{Dependency: "get", Region: region})[0].At
			if *full || dismissed.Sub(tripped) < 5*time.Second {
				assert.Zero(t, f.unavailable.Load(), "no run is refused; the verdict took %v", dismissed.Sub(tripped))
			}

			all, bad := int64(0), after[0]-before[0]
			for i := range after {
				all += after[i] - before[i]
				if i > 0 {
					assert.Equal(t, breaker.Closed, snapshotOf(f.plugins[i], "get").State)
				}
			}
			share := float64(bad) / float64(all)
			t.Logf("%d runs; %d tasks, of which the quarantined worker took %d, %.1f %%; a fair share is 20 %%", runs, all, bad, 100*share)
			if c.more == nil {
				assert.Less(t, share, 0.2)
			}
		})
	}
}
