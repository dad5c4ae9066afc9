package e2e_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// A refusal is a value if the activity's result type can hold one, and otherwise a
// non-retryable error.
func TestTemporalDoesNotRetryARefusal(t *testing.T) {
	t.Parallel()
	s := newScenario(t, 10)
	w := s.startToolWorker("tools", tripsAfterThree)
	opened := w.trip()
	// Refusals contain the ID of the outage workflow once the breaker has its verdict.
	require.Eventually(t, func() bool { return w.plugin.Breakers()[0].Outage != "" }, waitTimeout, 10*time.Millisecond)

	run := w.start(callToolWithDefaultRetries, carriertools.GetDeliveryStatus)
	plain := awaitResult[toolcall.Result[json.RawMessage]](t, run)
	events := s.history(t, run.GetID(), run.GetRunID())
	assert.EqualValues(t, 1, onlyEvent(t, events, enums.EVENT_TYPE_ACTIVITY_TASK_STARTED).GetActivityTaskStartedEventAttributes().GetAttempt())
	failed := onlyEvent(t, events, enums.EVENT_TYPE_ACTIVITY_TASK_FAILED).GetActivityTaskFailedEventAttributes()
	assert.Equal(t, enums.RETRY_STATE_NON_RETRYABLE_FAILURE, failed.GetRetryState())
	app := failed.GetFailure().GetApplicationFailureInfo()
	assert.Equal(t, toolcall.DependencyUnavailable, app.GetType())
	assert.True(t, app.GetNonRetryable())
	assert.Equal(t, enums.APPLICATION_ERROR_CATEGORY_BENIGN, app.GetCategory())
	var details toolcall.Unavailable
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(app.GetDetails(), &details))

	run = w.start(callToolWithDefaultRetries, statusResult)
	typed := awaitResult[toolcall.Result[json.RawMessage]](t, run)
	events = s.history(t, run.GetID(), run.GetRunID())
	assert.EqualValues(t, 1, onlyEvent(t, events, enums.EVENT_TYPE_ACTIVITY_TASK_STARTED).GetActivityTaskStartedEventAttributes().GetAttempt())
	completed := onlyEvent(t, events, enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED).GetActivityTaskCompletedEventAttributes()
	var value toolcall.Result[carriertools.Status]
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(completed.GetResult(), &value))

	// The workflow reads the same for both.
	for _, r := range []toolcall.Result[json.RawMessage]{plain, typed} {
		require.Equal(t, toolcall.Refused, r.Outcome())
		assert.Equal(t, r.Unavailable.Message, r.ForModel())
		assert.Contains(t, r.ForModel(), "carrier-api (eu-west) is temporarily unavailable; "+r.Unavailable.Tool+" was not executed.")
		assert.Contains(t, r.ForModel(), "Proceed without this information if you can, or escalate with what you have.")
		assert.Equal(t, toolcall.Unavailable{
			Code: toolcall.CodeUnavailable, Dependency: carriertools.Dependency, Region: carriertools.RegionEUWest,
			RegionFrom: toolcall.RegionFromWorker, Refusals: 1,
			Tools: interceptor.Tools(carriertools.GetDeliveryStatus, carriertools.GetTrackingEvents, carriertools.CreateReturnLabel, statusResult),
			Since: plain.Unavailable.Since, Rule: breaker.RuleFailureRate, Reason: "3 of 3 calls failed in 10m0s (over 50%)",
			Outage: probeworkflow.OutageID(euWest),
		}, withoutCallFields(r.Unavailable))
		assert.WithinDuration(t, opened.At.Add(tripsAfterThree.Cooldown), r.Unavailable.RetryAt, tripsAfterThree.Cooldown/5, "the cooldown with its jitter")
	}
	assert.Equal(t, *plain.Unavailable, details)
	assert.Equal(t, typed.Unavailable, value.Unavailable)
}

// withoutCallFields returns a refusal without the fields that differ between calls: the
// tool, the message and the retry time.
func withoutCallFields(u *toolcall.Unavailable) toolcall.Unavailable {
	common := *u
	common.Tool, common.Message, common.RetryAt, common.RetryAfterSeconds = "", "", time.Time{}, 0
	return common
}

// onlyEvent returns the event of a type, of which there must be exactly one.
func onlyEvent(t *testing.T, events []*history.HistoryEvent, kind enums.EventType) *history.HistoryEvent {
	t.Helper()
	found := eventsOfType(events, kind)
	require.Len(t, found, 1, kind.String())
	return found[0]
}
