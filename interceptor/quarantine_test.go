package interceptor_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// refusedWith returns the error of a refused call.
func refusedWith(t *testing.T, p *process) *temporal.ApplicationError {
	t.Helper()
	env, seen := newWorker(p.Plugin, tool, failsWith(errors.New("reached")))
	_, err := env.ExecuteActivity(tool, query{})
	require.Error(t, err)
	refusal, ok := seen.err.(*temporal.ApplicationError)
	require.True(t, ok, "%v", seen.err)
	require.Equal(t, toolcall.DependencyUnavailable, refusal.Type())
	return refusal
}

func assertRedirected(t *testing.T, refusal *temporal.ApplicationError) {
	t.Helper()
	assert.False(t, refusal.NonRetryable())
	assert.GreaterOrEqual(t, refusal.NextRetryDelay(), time.Second)
	assert.Less(t, refusal.NextRetryDelay(), 2*time.Second)
	assert.Equal(t, temporal.ApplicationErrorCategoryBenign, refusal.Category())
}

// dismissed is a table in which nothing is down and these workers are outliers.
func dismissed(epoch int64, outliers ...string) fleet.Table {
	return fleet.Table{Entries: []fleet.Entry{{
		Key: key, Dismissed: true, Outliers: outliers, Verdict: breaker.Verdict{State: breaker.Closed, Epoch: epoch, Outage: "outage/carrier-api/eu-west"},
	}}}
}

// tripAmong trips the breaker while these workers poll its task queue. The failed calls before
// it make the process count them.
func tripAmong(t *testing.T, p *process, workers ...string) {
	t.Helper()
	p.poll(workers...)
	fail(t, p.Plugin, 3)
	time.Sleep(time.Second)
	fail(t, p.Plugin, 7)
	synctest.Wait()
	require.Equal(t, breaker.Open, breakerOf(t, p.Plugin, key).State)
}

// Before the verdict, this worker may be the only one that fails.
func TestQuarantine_RedirectsCallsUntilTheVerdict(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		tripAmong(t, p, "this", "other")
		assertRedirected(t, refusedWith(t, p))
		time.Sleep(6 * time.Second)
		assert.True(t, refusedWith(t, p).NonRetryable(), "no verdict came")
	})
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		tripAmong(t, p, "this", "other")
		assertRedirected(t, refusedWith(t, p))
		open(p.Plugin)
		refusal := refusedWith(t, p)
		assert.True(t, refusal.NonRetryable(), "the dependency is down for all")
		assert.False(t, p.Slow())
	})
}

func TestQuarantine_RedirectsCallsAndPollsSlowly(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		tripAmong(t, p, "this", "other")
		p.Apply(dismissed(5, "other", p.Worker()))
		synctest.Wait()
		assert.True(t, p.Quarantined(key))
		assert.True(t, p.Slow())
		for range 3 {
			assertRedirected(t, refusedWith(t, p))
			time.Sleep(8 * time.Second)
			p.Apply(dismissed(5, p.Worker()))
		}
		sent := len(p.reports())
		require.Eventually(t, func() bool { return breakerOf(t, p.Plugin, key).State == breaker.Closed }, time.Hour, time.Second)
		synctest.Wait()
		assert.False(t, p.Quarantined(key), "it ended by itself")
		assert.False(t, p.Slow())
		p.Apply(dismissed(5, p.Worker()))
		assert.False(t, p.Quarantined(key), "the board still has the dismissal")
		assert.Len(t, p.reports(), sent, "no further report")
	})
}

// A quarantined worker that trips again on its ramp does not report it.
func TestQuarantine_TripsAgainWithoutAReport(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		tripAmong(t, p, "this", "other")
		p.Apply(dismissed(5, p.Worker()))
		sent := len(p.reports())
		for range 100 {
			time.Sleep(time.Second)
			fail(t, p.Plugin, 10)
		}
		assert.True(t, p.Quarantined(key))
		assert.NotEqual(t, breaker.Closed, breakerOf(t, p.Plugin, key).State)
		assert.Len(t, p.reports(), sent)

		// The dependency is now down for all.
		open(p.Plugin)
		p.Apply(fleet.Table{Entries: []fleet.Entry{{Key: key, Verdict: breaker.Verdict{
			State: breaker.Open, Epoch: 9, Next: time.Now().Add(time.Minute), Outage: "outage/carrier-api/eu-west",
		}}}})
		assert.False(t, p.Quarantined(key))
		assert.True(t, refusedWith(t, p).NonRetryable())
		synctest.Wait()
		assert.False(t, p.Slow())
	})
}

// The only worker of a task queue cannot redirect calls.
func TestQuarantine_RefusesIfNoOtherWorkerPolls(t *testing.T) {
	t.Parallel()
	for name, workers := range map[string][]string{"one worker": {"this"}, "one worker twice": {"this", "this"}, "no worker": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inProcess(t, unchanged, func(t *testing.T, p *process) {
				tripAmong(t, p, workers...)
				assert.True(t, refusedWith(t, p).NonRetryable())
				p.Apply(dismissed(5, p.Worker()))
				synctest.Wait()
				assert.True(t, refusedWith(t, p).NonRetryable())
				assert.False(t, p.Slow())
				p.poll("this", "new")
				time.Sleep(11 * time.Second)
				refusedWith(t, p)
				synctest.Wait()
				assertRedirected(t, refusedWith(t, p))
				assert.True(t, p.Slow())
			})
		})
	}
}

// A worker that tripped too late for the verdict is not an outlier.
func TestQuarantine_OnlyOfNamedOutliers(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		tripAmong(t, p, "this", "other")
		p.Apply(dismissed(5, "other"))
		assert.Equal(t, breaker.Closed, breakerOf(t, p.Plugin, key).State, "nothing is down")
		assert.False(t, p.Quarantined(key))
	})
}

// A healthy worker does not count the other workers.
func TestQuarantine_HealthyWorkersAreNotCounted(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		for range 60 {
			succeed(t, p.Plugin, 5)
			time.Sleep(time.Second)
		}
		assert.Zero(t, p.counted)
	})
}
