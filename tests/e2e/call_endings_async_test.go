package e2e_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

// A call whose tool returns activity.ErrResultPending is in flight until it is completed
// or its timeout ends it.
func testAsyncCompletion(t *testing.T) {
	h := newHarness(t, client.Options{})
	var tasks sync.Map // activity.Info by tool
	pend := func(ctx context.Context, _ bool) (string, error) {
		info := activity.GetInfo(ctx)
		tasks.Store(info.ActivityType.Name, info)
		return "", activity.ErrResultPending
	}
	// pending waits until the tool has run, and returns its task.
	pending := func(t *testing.T, e ending) activity.Info {
		t.Helper()
		require.Eventually(t, func() bool { _, ok := tasks.Load(e.name); return ok }, shortTimeout, 5*time.Millisecond)
		assert.Equal(t, 1, h.snapshot(e.name).InFlight, "in flight until it is completed")
		info, _ := tasks.Load(e.name)
		return info.(activity.Info)
	}
	completed := func(result any, failure error) func(*testing.T, ending, client.WorkflowRun) {
		return func(t *testing.T, e ending, _ client.WorkflowRun) {
			require.NoError(t, h.plugin.CompleteActivity(t.Context(), pending(t, e).TaskToken, result, failure))
		}
	}
	completedByID := func(result any, failure error) func(*testing.T, ending, client.WorkflowRun) {
		return func(t *testing.T, e ending, run client.WorkflowRun) {
			id := pending(t, e).ActivityID
			require.NoError(t, h.plugin.CompleteActivityByID(t.Context(), h.namespace, run.GetID(), run.GetRunID(), id, result, failure))
		}
	}
	endings := []ending{
		{
			name: "completed-with-success", do: pend, during: completed("fine", nil),
			want: answered, executions: 1, outcome: toolcall.OK,
		},
		{
			name: "completed-with-an-error", do: pend, during: completed(nil, errors.New("no connection")),
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: toolcall.TypeError, futureError: "retryable",
		},
		{
			name: "completed-by-id", do: pend, during: completedByID("fine", nil),
			want: answered, executions: 1, outcome: toolcall.OK,
		},
		{
			name: "completed-by-id-with-an-error", do: pend, during: completedByID(nil, errors.New("no connection")),
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: toolcall.TypeError, futureError: "retryable",
		},
		{
			// The holder of the task token can be faster than the tool.
			name: "completed-before-the-tool-returns",
			do: func(ctx context.Context, _ bool) (string, error) {
				if err := h.plugin.CompleteActivity(ctx, activity.GetInfo(ctx).TaskToken, "fine", nil); err != nil {
					return "", err
				}
				return "", activity.ErrResultPending
			},
			spec: callSpec{Options: oneAttempt(workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})},
			want: answered, executions: 1, outcome: toolcall.OK,
		},
		{
			name: "never-completed", do: pend,
			spec: callSpec{Options: oneAttempt(workflow.ActivityOptions{StartToCloseTimeout: 2 * time.Second})},
			want: failed, executions: 1, outcome: toolcall.Failed, errorType: toolcall.TypeTimeout, futureError: "StartToClose timeout",
		},
	}
	for _, e := range endings {
		h.addTool(e.name, neverTrips, e.do)
	}
	h.start()
	h.makeCalls(t, endings, func() {})
}
