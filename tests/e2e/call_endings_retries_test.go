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

// shortCooldown configures a breaker that two failures open. It closes after about four
// seconds if the dependency is healthy.
var shortCooldown = breaker.Config{
	MinSamples: 2, Window: time.Hour, Cooldown: 4 * time.Second, Ramp: []int{100}, RampStep: 200 * time.Millisecond, RampMinSamples: 1000,
}

func waitWhenOpen(d *interceptor.Dependency) { d.WhenOpen = interceptor.Wait }

func testRetries(t *testing.T) {
	h := newHarness(t, client.Options{})
	h.addTool("opens-between-attempts", tripsAfter(2), failOnRequest)
	h.addTool("always-fails", breaker.Config{MinSamples: 4, MaxAttemptsCounted: 3}, failOnRequest)
	h.addTool("waits", shortCooldown, failOnRequest, waitWhenOpen)
	h.addTool("waits-as-local-activity", shortCooldown, failOnRequest, waitWhenOpen)
	h.addTool("waits-no-attempt-left", tripsAfter(2), failOnRequest, waitWhenOpen)
	h.addTool("waits-no-time-left", tripsAfter(2), failOnRequest, waitWhenOpen)
	h.addTool("waits-type-listed", tripsAfter(2), failOnRequest, waitWhenOpen)
	h.addTool("type-listed", tripsAfter(2), failOnRequest)
	h.start()

	t.Run("opens between attempts", func(t *testing.T) {
		t.Parallel()
		const tool = "opens-between-attempts"
		run := h.startCall(t, callSpec{Tool: tool, Fail: true, Options: withRetries(0)})
		got := awaitResult[callResult](t, run)
		assertRefused(t, tool, got)
		assert.Equal(t, 2, h.executions(tool), "the third attempt is refused")
		assert.Equal(t, breaker.Open, h.awaitNoneInFlight(t, tool).State)
		started := onlyEvent(t, h.history(t, run), enums.EVENT_TYPE_ACTIVITY_TASK_STARTED).GetActivityTaskStartedEventAttributes()
		assert.EqualValues(t, 3, started.GetAttempt(), "there is no fourth attempt")
	})
	t.Run("counts at most MaxAttemptsCounted attempts", func(t *testing.T) {
		t.Parallel()
		const tool = "always-fails"
		got := h.call(t, callSpec{Tool: tool, Fail: true, Options: withRetries(7)})
		assert.Equal(t, toolcall.Failed, got.outcome())
		assert.Equal(t, 7, h.executions(tool))
		h.awaitSamples(t, tool, breaker.Counts{Samples: 3, Failures: 3})
	})
	t.Run("waits until the breaker is closed", func(t *testing.T) {
		t.Parallel()
		const tool = "waits"
		h.trip(t, tool, 2)
		run := h.startCall(t, callSpec{Tool: tool, Options: withRetries(0)})
		got := awaitResult[callResult](t, run)
		assert.Equal(t, toolcall.OK, got.outcome(), "%+v", got)
		assert.Equal(t, 3, h.executions(tool), "two to trip, one for this call")
		started := onlyEvent(t, h.history(t, run), enums.EVENT_TYPE_ACTIVITY_TASK_STARTED).GetActivityTaskStartedEventAttributes()
		assert.Greater(t, started.GetAttempt(), int32(1))
		refusal := started.GetLastFailure().GetApplicationFailureInfo()
		assert.Equal(t, toolcall.DependencyUnavailable, refusal.GetType())
		assert.False(t, refusal.GetNonRetryable())
		assert.GreaterOrEqual(t, refusal.GetNextRetryDelay().AsDuration(), time.Second, "longer than the policy's 50 ms")
		assert.Positive(t, h.awaitNoneInFlight(t, tool).Refused)
	})
	t.Run("waits as a local activity", func(t *testing.T) {
		t.Parallel()
		const tool = "waits-as-local-activity"
		h.trip(t, tool, 2)
		got := h.call(t, callSpec{Tool: tool, Kind: asLocal, Options: withRetries(0)})
		assert.Equal(t, toolcall.OK, got.outcome(), "%+v", got)
		assert.Equal(t, 3, h.executions(tool), "two to trip, one for this call")
		refused := h.awaitNoneInFlight(t, tool).Refused
		assert.Positive(t, refused)
		assert.Less(t, refused, int64(5), "fewer refusals than with a retry every 50 ms")
	})
	// When Temporal would not retry, the call is refused instead of waiting.
	for tool, options := range map[string]*workflow.ActivityOptions{
		"waits-no-attempt-left": withRetries(1),
		"waits-no-time-left":    {ScheduleToCloseTimeout: time.Minute},
		"waits-type-listed":     withRetries(0, toolcall.DependencyUnavailable),
		"type-listed":           withRetries(0, toolcall.DependencyUnavailable),
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			h.trip(t, tool, 2)
			run := h.startCall(t, callSpec{Tool: tool, Options: options})
			assertRefused(t, tool, awaitResult[callResult](t, run))
			assert.Equal(t, 2, h.executions(tool))
			started := onlyEvent(t, h.history(t, run), enums.EVENT_TYPE_ACTIVITY_TASK_STARTED).GetActivityTaskStartedEventAttributes()
			assert.EqualValues(t, 1, started.GetAttempt())
		})
	}
}
