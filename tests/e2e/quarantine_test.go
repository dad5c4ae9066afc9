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

var pollingAsEver = flag.Bool("polling", false, "measure a quarantined worker under load, and one that polls as ever, too")

// eager polls as the SDK does by itself: behind the breaker's plugin it takes the
// slowness of a quarantined worker away.
type eager struct{ worker.PluginBase }

func (eager) Name() string { return "eager" }

func (eager) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) (err error) {
	o.WorkerOptions.Tuner, err = worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{NumActivitySlots: 5})
	return err
}

// crew are workers of one task queue, each a fleet member of its own. The first
// one cannot reach the dependency.
type crew struct {
	*bench
	plugins []*interceptor.Plugin
	// unavailable is how many runs were told that the dependency is.
	unavailable atomic.Int64
}

func newCrew(t *testing.T, workers int, more ...worker.Plugin) *crew {
	t.Helper()
	c := &crew{bench: newBench(t, client.Options{})}
	c.guard("get", breaker.Config{MinSamples: 10, Cooldown: time.Hour, MaxCooldown: time.Hour})
	for i := range workers {
		plugin, err := interceptor.NewPlugin(c.client, c.config)
		require.NoError(t, err)
		c.plugins = append(c.plugins, plugin)
		do := func(context.Context, bool) (string, error) {
			if i == 0 {
				return "", errors.New("no such host")
			}
			time.Sleep(500 * time.Millisecond) // how long a call takes
			return "fine", nil
		}
		c.startWorker("tools", worker.Options{
			Identity: fmt.Sprintf("crew-%d", i), Plugins: append([]worker.Plugin{plugin}, more...),
			MaxConcurrentActivityExecutionSize: 5, DisableEagerActivities: true,
		}, func(r worker.Registry) { r.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: "get"}) })
	}
	return c
}

// table is what the board says.
func (b *bench) table() fleet.Table {
	b.t.Helper()
	var table fleet.Table
	value, err := b.client.QueryWorkflow(b.t.Context(), fleet.BoardID, "", fleet.TableQuery)
	require.NoError(b.t, err)
	require.NoError(b.t, value.Get(&table))
	return table
}

// tasks are how many each worker has taken.
func (c *crew) tasks() []int64 {
	var all []int64
	for _, p := range c.plugins {
		s := snapshotOf(p, "get")
		all = append(all, s.Counted+s.Refused)
	}
	return all
}

// work has runs started each so often, at most so many at a time, until stop is
// called, which gives how many there were. Each ends with an answer, of which
// c.unavailable counts those that say that the dependency is unavailable.
func (c *crew) work(every time.Duration, atOnce int) (stop func() int) {
	quit, slots := make(chan struct{}), make(chan struct{}, atOnce)
	var done, runs sync.WaitGroup
	n := 0
	done.Go(func() {
		ticker := time.NewTicker(every)
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
				run, err := c.client.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: "tools"}, carryOut, plan{Tool: "get", Options: retried(0)})
				var got answer
				if assert.NoError(c.t, err) && assert.NoError(c.t, run.Get(context.Background(), &got)) {
					if got.outcome() == toolcall.Refused {
						c.unavailable.Add(1)
						return
					}
					assert.Equal(c.t, toolcall.OK, got.outcome(), "%+v", got)
				}
			})
		}
	})
	end := sync.OnceFunc(func() {
		close(quit)
		done.Wait()
		runs.Wait()
	})
	c.t.Cleanup(end)
	return func() int {
		end()
		return n
	}
}

// The tasks of a worker that cannot reach the dependency are served by others: no
// run is told that it is unavailable. A worker that ends its calls at once has
// slots free when others have none, so it polls less.
func TestAWorkerAloneWithItsTroubleIsQuarantined(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		every  time.Duration
		atOnce int
		more   []worker.Plugin
	}{
		{"ten a second", 100 * time.Millisecond, 20, nil},
		// For the figures; see -polling. Where the server itself is that busy, the
		// fleet's word may take longer than a worker waits for it.
		{"more than the others can take", 10 * time.Millisecond, 100, nil},
		{"more than the others can take, polling as ever", 10 * time.Millisecond, 100, []worker.Plugin{eager{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.every < 100*time.Millisecond && !*pollingAsEver {
				t.Skip("only with -polling")
			}
			crew := newCrew(t, 5, c.more...)
			stop := crew.work(c.every, c.atOnce)
			var verdict fleet.Entry
			require.Eventually(t, func() bool {
				// There may be no board yet, or none that has begun.
				value, err := crew.client.QueryWorkflow(context.Background(), fleet.BoardID, "", fleet.TableQuery)
				var table fleet.Table
				if err != nil || value.Get(&table) != nil {
					return false
				}
				for _, e := range table.Entries {
					verdict = e
				}
				return verdict.Dismissed
			}, patience, 50*time.Millisecond)
			told := time.Now()
			require.Len(t, verdict.Outliers, 1)
			require.Equal(t, breaker.Open, snapshotOf(crew.plugins[0], "get").State)

			before := crew.tasks()
			time.Sleep(20 * time.Second) // for how long is counted
			after := crew.tasks()
			runs := stop()
			// A worker waits for the fleet's word for five seconds. Where the machine is so
			// busy that it comes later, calls are refused in between.
			tripped := crew.edges.of(breaker.Key{Dependency: "get", Region: region})[0].At
			if *full || told.Sub(tripped) < 5*time.Second {
				assert.Zero(t, crew.unavailable.Load(), "no run is told that the dependency is unavailable; the fleet's word took %v", told.Sub(tripped))
			}

			all, bad := int64(0), after[0]-before[0]
			for i := range after {
				all += after[i] - before[i]
				if i > 0 {
					assert.Equal(t, breaker.Closed, snapshotOf(crew.plugins[i], "get").State)
				}
			}
			share := float64(bad) / float64(all)
			t.Logf("%d runs; of %d tasks in quarantine the worker in trouble took %d, %.1f %%; a fair share is 20 %%", runs, all, bad, 100*share)
			if c.more == nil {
				assert.Less(t, share, 0.2)
			}
		})
	}
}
