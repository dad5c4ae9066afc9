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

// A tool that returns activity.ErrResultPending is under way until somebody
// completes it, or until its deadline.
func testEndingsElsewhere(t *testing.T) {
	b := newBench(t, client.Options{})
	var tasks sync.Map // activity.Info by tool
	pend := func(ctx context.Context, _ bool) (string, error) {
		info := activity.GetInfo(ctx)
		tasks.Store(info.ActivityType.Name, info)
		return "", activity.ErrResultPending
	}
	// underWay gives the task once its tool has returned.
	underWay := func(t *testing.T, e ending) activity.Info {
		t.Helper()
		require.Eventually(t, func() bool { _, ok := tasks.Load(e.name); return ok }, soon, 5*time.Millisecond)
		assert.Equal(t, 1, b.breaker(e.name).InFlight, "until it is completed")
		info, _ := tasks.Load(e.name)
		return info.(activity.Info)
	}
	completed := func(result any, failure error) func(*testing.T, ending, client.WorkflowRun) {
		return func(t *testing.T, e ending, _ client.WorkflowRun) {
			require.NoError(t, b.plugin.CompleteActivity(t.Context(), underWay(t, e).TaskToken, result, failure))
		}
	}
	completedByID := func(result any, failure error) func(*testing.T, ending, client.WorkflowRun) {
		return func(t *testing.T, e ending, run client.WorkflowRun) {
			id := underWay(t, e).ActivityID
			require.NoError(t, b.plugin.CompleteActivityByID(t.Context(), b.namespace, run.GetID(), run.GetRunID(), id, result, failure))
		}
	}
	endings := []ending{
		{
			name: "completed-with-success", do: pend, during: completed("fine", nil),
			want: answered, calls: 1, outcome: toolcall.OK,
		},
		{
			name: "completed-with-an-error", do: pend, during: completed(nil, errors.New("no connection")),
			want: failed, calls: 1, outcome: toolcall.Failed, kind: toolcall.TypeError, failure: "retryable",
		},
		{
			name: "completed-by-id", do: pend, during: completedByID("fine", nil),
			want: answered, calls: 1, outcome: toolcall.OK,
		},
		{
			name: "completed-by-id-with-an-error", do: pend, during: completedByID(nil, errors.New("no connection")),
			want: failed, calls: 1, outcome: toolcall.Failed, kind: toolcall.TypeError, failure: "retryable",
		},
		{
			// Whoever was handed the token may be faster than the tool.
			name: "completed-before-the-tool-returns",
			do: func(ctx context.Context, _ bool) (string, error) {
				if err := b.plugin.CompleteActivity(ctx, activity.GetInfo(ctx).TaskToken, "fine", nil); err != nil {
					return "", err
				}
				return "", activity.ErrResultPending
			},
			plan: plan{Options: once(workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})},
			want: answered, calls: 1, outcome: toolcall.OK,
		},
		{
			name: "completed-by-nobody", do: pend,
			plan: plan{Options: once(workflow.ActivityOptions{StartToCloseTimeout: 2 * time.Second})},
			want: failed, calls: 1, outcome: toolcall.Failed, kind: toolcall.TypeTimeout, failure: "StartToClose timeout",
		},
	}
	for _, e := range endings {
		b.tool(e.name, patient, e.do)
	}
	b.open()
	b.carryOutAll(t, endings, func() {})
}
