package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	sdkworkflow "go.temporal.io/sdk/workflow"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

// brisk is a breaker whose whole outage takes seconds, while each of its states
// lasts long enough to be seen.
var brisk = breaker.Config{
	MinSamples: 3, Window: time.Hour, Latency: 2 * time.Second,
	Cooldown: time.Second, ProbeInterval: 100 * time.Millisecond, RampStep: 500 * time.Millisecond,
}

// The outage of one key, as its operator sees it in Temporal.
func TestOutageWorkflow(t *testing.T) {
	t.Parallel()
	s := newStory(t, 10)
	d := s.openDesk("tools", brisk)
	require.NoError(t, d.carrier.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Hang}))
	for range brisk.MinSamples {
		d.start(callTool, carriertools.GetDeliveryStatus)
	}
	d.edges.await(t, euWest, breaker.Open, time.Time{})

	t.Run("is found by its state", func(t *testing.T) {
		s.awaitListed(t, breaker.Open)
		s.awaitListed(t, breaker.HalfOpen)
		s.awaitListed(t, breaker.Open)
		require.NoError(t, d.carrier.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Healthy}))
		s.awaitListed(t, breaker.Recovering)
		s.awaitListed(t, breaker.Closed)
	})
	t.Run("completes with a report", func(t *testing.T) {
		report := await[probeworkflow.OutageReport](t, s.Client.GetWorkflow(t.Context(), probeworkflow.OutageID(euWest), ""))
		assert.Equal(t, euWest, report.Key)
		assert.Equal(t, "recovered", report.Outcome)
		assert.Contains(t, report.Reason, "still hanging")
		assert.GreaterOrEqual(t, report.Rounds, 2)
		assert.GreaterOrEqual(t, report.Probes, 1+brisk.WithDefaults().ProbeSuccesses)
		assert.Equal(t, 1, report.Workers)
		assert.True(t, report.Ended.After(report.Since))
		total := 0.0
		for _, state := range []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Recovering} {
			assert.Positive(t, report.Seconds[state.String()], state)
			total += report.Seconds[state.String()]
		}
		assert.LessOrEqual(t, total, report.Ended.Sub(report.Since).Seconds())
	})

	histories := s.histories(t, probeworkflow.OutageWorkflow, probeworkflow.ProbeWorkflow, fleet.BoardWorkflow)
	t.Run("leaves histories without a failed workflow task", func(t *testing.T) {
		for of, events := range histories {
			assert.Empty(t, ofType(events, enums.EVENT_TYPE_WORKFLOW_TASK_FAILED), of)
			assert.Empty(t, ofType(events, enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT), of)
		}
	})
	t.Run("leaves histories that replay", func(t *testing.T) {
		replayer := worker.NewWorkflowReplayer()
		for name, definition := range map[string]any{
			fleet.BoardWorkflow:          fleet.Board,
			probeworkflow.OutageWorkflow: probeworkflow.Outage,
			probeworkflow.ProbeWorkflow:  probeworkflow.Probe,
		} {
			replayer.RegisterWorkflowWithOptions(definition, sdkworkflow.RegisterOptions{Name: name})
		}
		for of, events := range histories {
			assert.NoError(t, replayer.ReplayWorkflowHistory(log.NewStructuredLogger(discard), &history.History{Events: events}), of)
		}
	})
}

// awaitListed waits until the list of workflows shows the outage of eu-west, and
// nothing else, in a state.
func (s *story) awaitListed(t *testing.T, state breaker.State) {
	t.Helper()
	query := fmt.Sprintf("%s = '%s' AND %s = '%s' AND %s = '%s'",
		probeworkflow.SearchState, state, probeworkflow.SearchDependency, euWest.Dependency, probeworkflow.SearchRegion, euWest.Region)
	require.Eventually(t, func() bool {
		found := s.list(t, query)
		return len(found) == 1 && found[0].GetExecution().GetWorkflowId() == probeworkflow.OutageID(euWest)
	}, patience, 20*time.Millisecond, query)
}

func (s *story) list(t *testing.T, query string) []*workflow.WorkflowExecutionInfo {
	t.Helper()
	answer, err := s.Client.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
	require.NoError(t, err)
	return answer.GetExecutions()
}

// histories gives the events of every execution of the workflow types, each of
// which has at least one.
func (s *story) histories(t *testing.T, types ...string) map[string][]*history.HistoryEvent {
	t.Helper()
	found := map[string][]*history.HistoryEvent{}
	for _, name := range types {
		executions := s.list(t, fmt.Sprintf("WorkflowType = '%s'", name))
		require.NotEmpty(t, executions, name)
		for _, e := range executions {
			found[e.GetExecution().GetWorkflowId()+" "+e.GetExecution().GetRunId()] =
				s.history(t, e.GetExecution().GetWorkflowId(), e.GetExecution().GetRunId())
		}
	}
	return found
}

func (s *story) history(t *testing.T, id, runID string) []*history.HistoryEvent {
	t.Helper()
	var events []*history.HistoryEvent
	iterator := s.Client.GetWorkflowHistory(t.Context(), id, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for iterator.HasNext() {
		event, err := iterator.Next()
		require.NoError(t, err)
		events = append(events, event)
	}
	return events
}

func ofType(events []*history.HistoryEvent, kind enums.EventType) []*history.HistoryEvent {
	var found []*history.HistoryEvent
	for _, e := range events {
		if e.GetEventType() == kind {
			found = append(found, e)
		}
	}
	return found
}
