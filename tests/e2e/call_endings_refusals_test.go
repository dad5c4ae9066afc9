package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// makeCallsInRun is a workflow that calls a tool several times with WithRun. It returns
// what the model reads after each call.
func makeCallsInRun(ctx workflow.Context, tool string, times int) ([]string, error) {
	ctx = toolcall.WithRun(workflow.WithActivityOptions(ctx, *oneAttempt(workflow.ActivityOptions{})), toolcall.Run{})
	var texts []string
	for range times {
		r, err := toolcall.Execute[json.RawMessage](ctx, tool, false)
		if err != nil || r.Outcome() != toolcall.Refused {
			return nil, fmt.Errorf("not refused: %v, %w", r.Outcome(), err)
		}
		texts = append(texts, r.ForModel())
	}
	return texts, nil
}

func testRefusals(t *testing.T) {
	h := newHarness(t, client.Options{})
	h.addTool("refused-as-activity", tripsAfter(2), failOnRequest)
	h.addTool("refused-as-local", tripsAfter(2), failOnRequest)
	h.addTool("text", tripsAfter(2), failOnRequest)
	h.addTool("remembered", tripsAfter(2), failOnRequest)
	h.addTool("huge-result", neverTrips, func(context.Context, bool) (string, error) { return strings.Repeat("x", 3<<20), nil })
	h.start()

	// The breaker logs an outage once. Its refusals are neither logged nor counted as
	// failures.
	for _, c := range []struct {
		tool, failures string
		kind           callKind
	}{
		{"refused-as-activity", "temporal_activity_execution_failed", asActivity},
		{"refused-as-local", "temporal_local_activity_execution_failed", asLocal},
	} {
		t.Run(c.tool+" is not logged, no failure metric and no sample", func(t *testing.T) {
			t.Parallel()
			const refusals = 20
			for range 2 {
				require.Equal(t, toolcall.Failed, h.call(t, callSpec{Tool: c.tool, Fail: true, Kind: c.kind}).outcome())
			}
			before := h.awaitNoneInFlight(t, c.tool)
			require.Equal(t, breaker.Open, before.State)
			require.EqualValues(t, 2, h.metrics.count(c.failures, c.tool), "the tool's failures are counted")
			require.Eventually(t, func() bool {
				return len(h.logs.with("Breaker opened. dependency="+c.tool)) == 1
			}, shortTimeout, 5*time.Millisecond)
			logged := h.logs.with(c.tool)

			for range refusals {
				assertRefused(t, c.tool, h.call(t, callSpec{Tool: c.tool, Kind: c.kind}))
			}
			assert.EqualValues(t, 2, h.metrics.count(c.failures, c.tool))
			assert.Equal(t, logged, h.logs.with(c.tool))
			after := h.awaitNoneInFlight(t, c.tool)
			assert.Equal(t, before.Counted, after.Counted)
			assert.Equal(t, before.Evidence, after.Evidence)
			assert.EqualValues(t, refusals, after.Refused-before.Refused)
			assert.Equal(t, 2, h.executions(c.tool))
		})
	}
	t.Run("has a complete text", func(t *testing.T) {
		t.Parallel()
		h.trip(t, "text", 2)
		text := h.call(t, callSpec{Tool: "text"}).Result.ForModel()
		assert.Less(t, len(text), 500)
		assert.Regexp(t, regexp.MustCompile(`^text \(eu-west\) is temporarily unavailable; text was not executed\. `+
			`Do not call it again before \d\d:\d\d:\d\d UTC \(in \d+ s\)\. `), text)
	})
	t.Run("is answered from memory within a run", func(t *testing.T) {
		t.Parallel()
		h.trip(t, "remembered", 2)
		events := map[int]int{}
		for _, times := range []int{1, 10} {
			run := h.startWorkflow(t, makeCallsInRun, "remembered", times)
			texts := awaitResult[[]string](t, run)
			require.Len(t, texts, times)
			if times > 1 {
				assert.Contains(t, texts[times-1], fmt.Sprintf("refusal %d in this run", times))
			}
			history := h.history(t, run)
			assert.Len(t, eventsOfType(history, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED), 1)
			events[times] = len(history)
		}
		assert.Equal(t, events[1], events[10], "nine more calls add no event")
	})
	// The dependency answered, but Temporal rejects the result. The SDK's error is
	// retryable, so a retry policy without a limit must list its type.
	for name, options := range map[string]*workflow.ActivityOptions{
		"two attempts": withRetries(2), "error type listed": withRetries(0, "payloadSizeError"),
	} {
		t.Run("a result over the size limit is a failed call, "+name, func(t *testing.T) {
			got := h.call(t, callSpec{Tool: "huge-result", Options: options})
			assert.Equal(t, toolcall.Failed, got.outcome(), "%+v", got)
			assert.Equal(t, "huge-result failed (payloadSizeError).", got.Result.ForModel())
			assert.Equal(t, "payloadSizeError retryable", got.Error)
		})
	}
	h.awaitSamples(t, "huge-result", breaker.Counts{Samples: 3})
	assert.Equal(t, 3, h.executions("huge-result"), "two attempts and one attempt")
}
