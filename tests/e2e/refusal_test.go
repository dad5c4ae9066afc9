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

// An open breaker is a result: an error of its own type where the activity's
// result type can hold nothing else, and a value where it can.
func TestRefusalIsAResultThatTemporalNeverRetries(t *testing.T) {
	t.Parallel()
	s := newStory(t, 10)
	d := s.openDesk("tools", touchy)
	opened := d.trip()
	// From here on the refusal names the outage workflow.
	require.Eventually(t, func() bool { return d.plugin.Breakers()[0].Outage != "" }, patience, 10*time.Millisecond)

	// Temporal's default policy retries without end; a refusal ends it at once.
	run := d.start(callToolPatiently, carriertools.GetDeliveryStatus)
	plain := await[toolcall.Result[json.RawMessage]](t, run)
	events := s.history(t, run.GetID(), run.GetRunID())
	assert.EqualValues(t, 1, only(t, events, enums.EVENT_TYPE_ACTIVITY_TASK_STARTED).GetActivityTaskStartedEventAttributes().GetAttempt())
	failed := only(t, events, enums.EVENT_TYPE_ACTIVITY_TASK_FAILED).GetActivityTaskFailedEventAttributes()
	assert.Equal(t, enums.RETRY_STATE_NON_RETRYABLE_FAILURE, failed.GetRetryState())
	app := failed.GetFailure().GetApplicationFailureInfo()
	assert.Equal(t, toolcall.DependencyUnavailable, app.GetType())
	assert.True(t, app.GetNonRetryable())
	assert.Equal(t, enums.APPLICATION_ERROR_CATEGORY_BENIGN, app.GetCategory())
	var details toolcall.Unavailable
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(app.GetDetails(), &details))

	// An activity whose result type can hold a refusal completes with one.
	run = d.start(callToolPatiently, statusResult)
	typed := await[toolcall.Result[json.RawMessage]](t, run)
	events = s.history(t, run.GetID(), run.GetRunID())
	assert.EqualValues(t, 1, only(t, events, enums.EVENT_TYPE_ACTIVITY_TASK_STARTED).GetActivityTaskStartedEventAttributes().GetAttempt())
	completed := only(t, events, enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED).GetActivityTaskCompletedEventAttributes()
	var value toolcall.Result[carriertools.Status]
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(completed.GetResult(), &value))

	// The agent's workflow reads the same either way.
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
		}, told(r.Unavailable))
		assert.WithinDuration(t, opened.At.Add(touchy.Cooldown), r.Unavailable.RetryAt, touchy.Cooldown/5, "the cooldown, and its jitter")
	}
	assert.Equal(t, *plain.Unavailable, details)
	assert.Equal(t, typed.Unavailable, value.Unavailable)
}

// told is what a refusal says of the outage, without what differs from call to
// call: the tool, and how long it is until the next try.
func told(u *toolcall.Unavailable) toolcall.Unavailable {
	same := *u
	same.Tool, same.Message, same.RetryAt, same.RetryAfterSeconds = "", "", time.Time{}, 0
	return same
}

// only gives the one event of its type.
func only(t *testing.T, events []*history.HistoryEvent, kind enums.EventType) *history.HistoryEvent {
	t.Helper()
	found := ofType(events, kind)
	require.Len(t, found, 1, kind.String())
	return found[0]
}
