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

// refusedWith is the error in which a call ends that the breaker does not let
// pass.
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

func assertHandedOn(t *testing.T, refusal *temporal.ApplicationError) {
	t.Helper()
	assert.False(t, refusal.NonRetryable())
	assert.GreaterOrEqual(t, refusal.NextRetryDelay(), time.Second)
	assert.Less(t, refusal.NextRetryDelay(), 2*time.Second)
	assert.Equal(t, temporal.ApplicationErrorCategoryBenign, refusal.Category())
}

// dismissed is the board's word that nothing is down, and who is alone.
func dismissed(epoch int64, alone ...string) fleet.Table {
	return fleet.Table{Entries: []fleet.Entry{{
		Key: key, Dismissed: true, Outliers: alone, Verdict: breaker.Verdict{State: breaker.Closed, Epoch: epoch, Outage: "outage/carrier-api/eu-west"},
	}}}
}

// tripAmong has the breaker trip while these workers poll its task queue, and
// some calls go wrong before: by then it is known who does.
func tripAmong(t *testing.T, p *process, workers ...string) {
	t.Helper()
	p.poll(workers...)
	fail(t, p.Plugin, 3)
	time.Sleep(time.Second)
	fail(t, p.Plugin, 7)
	synctest.Wait()
	require.Equal(t, breaker.Open, breakerOf(t, p.Plugin, key).State)
}

// Until the fleet has said which it is, the trouble may be this worker's own.
func TestAlone_HandsCallsOnUntilTheFleetHasSpoken(t *testing.T) {
	t.Parallel()
	inProcess(t, asItIs, func(t *testing.T, p *process) {
		tripAmong(t, p, "this", "other")
		assertHandedOn(t, refusedWith(t, p))
		time.Sleep(6 * time.Second)
		assert.True(t, refusedWith(t, p).NonRetryable(), "nobody says anything")
	})
	inProcess(t, asItIs, func(t *testing.T, p *process) {
		tripAmong(t, p, "this", "other")
		assertHandedOn(t, refusedWith(t, p))
		open(p.Plugin)
		refusal := refusedWith(t, p)
		assert.True(t, refusal.NonRetryable(), "it is down for all")
		assert.False(t, p.Slow())
	})
}

func TestAlone_HandsCallsOnInQuarantineAndPollsLess(t *testing.T) {
	t.Parallel()
	inProcess(t, asItIs, func(t *testing.T, p *process) {
		tripAmong(t, p, "this", "other")
		p.Apply(dismissed(5, "somebody else", p.Worker()))
		synctest.Wait()
		assert.True(t, p.Quarantined(key))
		assert.True(t, p.Slow())
		for range 3 {
			assertHandedOn(t, refusedWith(t, p))
			time.Sleep(8 * time.Second)
			p.Apply(dismissed(5, p.Worker()))
		}
		sent := len(p.reports())
		require.Eventually(t, func() bool { return breakerOf(t, p.Plugin, key).State == breaker.Closed }, time.Hour, time.Second)
		synctest.Wait()
		assert.False(t, p.Quarantined(key), "over by time alone")
		assert.False(t, p.Slow())
		p.Apply(dismissed(5, p.Worker()))
		assert.False(t, p.Quarantined(key), "the board says it still")
		assert.Len(t, p.reports(), sent, "the fleet knew")
	})
}

// It trips again on its ramp: no news to the fleet, as long as it is quarantined.
func TestAlone_TripsAgainWithoutAWord(t *testing.T) {
	t.Parallel()
	inProcess(t, asItIs, func(t *testing.T, p *process) {
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

		// The dependency goes down for all.
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

// The only worker of its task queue has nobody to hand a call to.
func TestAlone_RefusesWhereNobodyElsePolls(t *testing.T) {
	t.Parallel()
	for name, workers := range map[string][]string{"alone": {"this"}, "twice itself": {"this", "this"}, "nobody": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inProcess(t, asItIs, func(t *testing.T, p *process) {
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
				assertHandedOn(t, refusedWith(t, p))
				assert.True(t, p.Slow())
			})
		})
	}
}

// A worker that was not alone, but tripped a moment too late to be heard.
func TestAlone_IsNotWhoIsNotNamed(t *testing.T) {
	t.Parallel()
	inProcess(t, asItIs, func(t *testing.T, p *process) {
		tripAmong(t, p, "this", "other")
		p.Apply(dismissed(5, "somebody else"))
		assert.Equal(t, breaker.Closed, breakerOf(t, p.Plugin, key).State, "nothing is down")
		assert.False(t, p.Quarantined(key))
	})
}

// A healthy worker asks nobody who else there is.
func TestAlone_CountsNobodyWhileAllIsWell(t *testing.T) {
	t.Parallel()
	inProcess(t, asItIs, func(t *testing.T, p *process) {
		for range 60 {
			succeed(t, p.Plugin, 5)
			time.Sleep(time.Second)
		}
		assert.Zero(t, p.counted)
	})
}
