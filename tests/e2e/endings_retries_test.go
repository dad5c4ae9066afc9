package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// brief is a breaker that two failures open, and that takes a healthy dependency
// back after about four seconds.
var brief = breaker.Config{
	MinSamples: 2, Window: time.Hour, Cooldown: 4 * time.Second, Ramp: []int{100}, RampStep: 200 * time.Millisecond, RampMinSamples: 1000,
}

func waiting(d *interceptor.Dependency) { d.WhenOpen = interceptor.Wait }

func testEndingsRetries(t *testing.T) {
	b := newBench(t, client.Options{})
	b.tool("opens-between-attempts", opened(2), obliging)
	b.tool("poisoned", breaker.Config{MinSamples: 4, MaxAttemptsCounted: 3}, obliging)
	b.tool("waits", brief, obliging, waiting)
	b.tool("waits-locally", brief, obliging, waiting)
	b.tool("waits-no-attempt-left", opened(2), obliging, waiting)
	b.tool("waits-no-time-left", opened(2), obliging, waiting)
	b.tool("waits-type-listed", opened(2), obliging, waiting)
	b.tool("type-listed", opened(2), obliging)
	b.open()

	t.Run("opens between two attempts", func(t *testing.T) {
		t.Parallel()
		const tool = "opens-between-attempts"
		run := b.start(t, plan{Tool: tool, Fail: true, Options: retried(0)})
		got := await[answer](t, run)
		assertRefused(t, tool, got)
		assert.Equal(t, 2, b.calls(tool), "the third attempt was the refused one")
		assert.Equal(t, breaker.Open, b.settled(t, tool).State)
		started := only(t, b.history(t, run), enums.EVENT_TYPE_ACTIVITY_TASK_STARTED).GetActivityTaskStartedEventAttributes()
		assert.EqualValues(t, 3, started.GetAttempt(), "and the last, of any number")
	})
	t.Run("one poisoned execution", func(t *testing.T) {
		t.Parallel()
		const tool = "poisoned"
		got := b.call(t, plan{Tool: tool, Fail: true, Options: retried(7)})
		assert.Equal(t, toolcall.Failed, got.outcome())
		assert.Equal(t, 7, b.calls(tool))
		b.expect(t, tool, breaker.Counts{Samples: 3, Failures: 3})
	})
	t.Run("waits until the breaker is closed", func(t *testing.T) {
		t.Parallel()
		const tool = "waits"
		b.trip(t, tool, 2)
		run := b.start(t, plan{Tool: tool, Options: retried(0)})
		got := await[answer](t, run)
		assert.Equal(t, toolcall.OK, got.outcome(), "%+v", got)
		assert.Equal(t, 3, b.calls(tool), "once for this call")
		started := only(t, b.history(t, run), enums.EVENT_TYPE_ACTIVITY_TASK_STARTED).GetActivityTaskStartedEventAttributes()
		assert.Greater(t, started.GetAttempt(), int32(1))
		refusal := started.GetLastFailure().GetApplicationFailureInfo()
		assert.Equal(t, toolcall.DependencyUnavailable, refusal.GetType())
		assert.False(t, refusal.GetNonRetryable())
		assert.GreaterOrEqual(t, refusal.GetNextRetryDelay().AsDuration(), time.Second, "not the policy's 50 ms")
		assert.Positive(t, b.settled(t, tool).Refused)
	})
	t.Run("waits as a local activity", func(t *testing.T) {
		t.Parallel()
		const tool = "waits-locally"
		b.trip(t, tool, 2)
		got := b.call(t, plan{Tool: tool, How: asLocal, Options: retried(0)})
		assert.Equal(t, toolcall.OK, got.outcome(), "%+v", got)
		assert.Equal(t, 3, b.calls(tool), "once for this call")
		refused := b.settled(t, tool).Refused
		assert.Positive(t, refused)
		assert.Less(t, refused, int64(5), "not every 50 ms")
	})
	// Where Temporal would not try again, waiting would only tell the workflow less.
	for tool, options := range map[string]*workflow.ActivityOptions{
		"waits-no-attempt-left": retried(1),
		"waits-no-time-left":    {ScheduleToCloseTimeout: time.Minute},
		"waits-type-listed":     retried(0, toolcall.DependencyUnavailable),
		"type-listed":           retried(0, toolcall.DependencyUnavailable),
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			b.trip(t, tool, 2)
			run := b.start(t, plan{Tool: tool, Options: options})
			assertRefused(t, tool, await[answer](t, run))
			assert.Equal(t, 2, b.calls(tool))
			started := only(t, b.history(t, run), enums.EVENT_TYPE_ACTIVITY_TASK_STARTED).GetActivityTaskStartedEventAttributes()
			assert.EqualValues(t, 1, started.GetAttempt())
		})
	}
}
