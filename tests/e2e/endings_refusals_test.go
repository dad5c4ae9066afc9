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

// carryOutTogether calls a tool again and again in a run that remembers, and gives
// what a model reads each time.
func carryOutTogether(ctx workflow.Context, tool string, times int) ([]string, error) {
	ctx = toolcall.WithRun(workflow.WithActivityOptions(ctx, *once(workflow.ActivityOptions{})), toolcall.Run{})
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

func testEndingsRefusals(t *testing.T) {
	b := newBench(t, client.Options{})
	b.tool("refused-as-activity", opened(2), obliging)
	b.tool("refused-as-local", opened(2), obliging)
	b.tool("worded", opened(2), obliging)
	b.tool("remembered", opened(2), obliging)
	b.tool("huge-answer", patient, func(context.Context, bool) (string, error) { return strings.Repeat("x", 3<<20), nil })
	b.open()

	// An outage is the breaker's to report, once.
	for _, c := range []struct {
		tool, failures string
		how            how
	}{
		{"refused-as-activity", "temporal_activity_execution_failed", asActivity},
		{"refused-as-local", "temporal_local_activity_execution_failed", asLocal},
	} {
		t.Run(c.tool+" floods neither logs nor metrics and is no sample", func(t *testing.T) {
			t.Parallel()
			const refusals = 20
			for range 2 {
				require.Equal(t, toolcall.Failed, b.call(t, plan{Tool: c.tool, Fail: true, How: c.how}).outcome())
			}
			before := b.settled(t, c.tool)
			require.Equal(t, breaker.Open, before.State)
			require.EqualValues(t, 2, b.meter.count(c.failures, c.tool), "the tool's own failures are counted")
			require.Eventually(t, func() bool {
				return len(b.logs.with("Breaker opened. dependency="+c.tool)) == 1
			}, soon, 5*time.Millisecond)
			logged := b.logs.with(c.tool)

			for range refusals {
				assertRefused(t, c.tool, b.call(t, plan{Tool: c.tool, How: c.how}))
			}
			assert.EqualValues(t, 2, b.meter.count(c.failures, c.tool))
			assert.Equal(t, logged, b.logs.with(c.tool))
			after := b.settled(t, c.tool)
			assert.Equal(t, before.Counted, after.Counted)
			assert.Equal(t, before.Evidence, after.Evidence)
			assert.EqualValues(t, refusals, after.Refused-before.Refused)
			assert.Equal(t, 2, b.calls(c.tool))
		})
	}
	t.Run("its text alone says what is to be known", func(t *testing.T) {
		t.Parallel()
		b.trip(t, "worded", 2)
		text := b.call(t, plan{Tool: "worded"}).Result.ForModel()
		assert.Less(t, len(text), 500)
		assert.Regexp(t, regexp.MustCompile(`^worded \(eu-west\) is temporarily unavailable; worded was not executed\. `+
			`Do not call it again before \d\d:\d\d:\d\d UTC \(in \d+ s\)\. `), text)
	})
	t.Run("a run remembers it", func(t *testing.T) {
		t.Parallel()
		b.trip(t, "remembered", 2)
		events := map[int]int{}
		for _, times := range []int{1, 10} {
			run := b.startAs(t, carryOutTogether, "remembered", times)
			texts := await[[]string](t, run)
			require.Len(t, texts, times)
			if times > 1 {
				assert.Contains(t, texts[times-1], fmt.Sprintf("refusal %d in this run", times))
			}
			history := b.history(t, run)
			assert.Len(t, ofType(history, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED), 1)
			events[times] = len(history)
		}
		assert.Equal(t, events[1], events[10], "nine more calls leave no trace in the history")
	})
	// The dependency did answer; it is Temporal that does not take it. By the SDK's
	// word it may be retried, so a policy without end has to name it.
	for name, options := range map[string]*workflow.ActivityOptions{
		"after the last attempt": retried(2), "at once where it is listed": retried(0, "payloadSizeError"),
	} {
		t.Run("an answer over the size limit is a failure and the run goes on, "+name, func(t *testing.T) {
			got := b.call(t, plan{Tool: "huge-answer", Options: options})
			assert.Equal(t, toolcall.Failed, got.outcome(), "%+v", got)
			assert.Equal(t, "huge-answer failed (payloadSizeError).", got.Result.ForModel())
			assert.Equal(t, "payloadSizeError retryable", got.Error)
		})
	}
	b.expect(t, "huge-answer", breaker.Counts{Samples: 3})
	assert.Equal(t, 3, b.calls("huge-answer"), "two attempts, and one")
}
