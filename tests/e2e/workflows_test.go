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

// shortOutage configures a breaker whose outage takes seconds. Each state lasts long
// enough to be listed.
var shortOutage = breaker.Config{
	MinSamples: 3, Window: time.Hour, Latency: 2 * time.Second,
	Cooldown: time.Second, ProbeInterval: 100 * time.Millisecond, RampStep: 500 * time.Millisecond,
}

// An operator can follow an outage in Temporal.
func TestOutageWorkflow(t *testing.T) {
	t.Parallel()
	s := newScenario(t, 10)
	w := s.startToolWorker("tools", shortOutage)
	require.NoError(t, w.carrier.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Hang}))
	for range shortOutage.MinSamples {
		w.start(callTool, carriertools.GetDeliveryStatus)
	}
	w.transitions.await(t, euWest, breaker.Open, time.Time{})

	t.Run("can be listed by state", func(t *testing.T) {
		s.awaitListed(t, breaker.Open)
		s.awaitListed(t, breaker.HalfOpen)
		s.awaitListed(t, breaker.Open)
		require.NoError(t, w.carrier.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Healthy}))
		s.awaitListed(t, breaker.Recovering)
		s.awaitListed(t, breaker.Closed)
	})
	t.Run("returns a report", func(t *testing.T) {
		report := awaitResult[probeworkflow.OutageReport](t, s.Client.GetWorkflow(t.Context(), probeworkflow.OutageID(euWest), ""))
		assert.Equal(t, euWest, report.Key)
		assert.Equal(t, "recovered", report.Outcome)
		assert.Contains(t, report.Reason, "still hanging")
		assert.GreaterOrEqual(t, report.Rounds, 2)
		assert.GreaterOrEqual(t, report.Probes, 1+shortOutage.WithDefaults().ProbeSuccesses)
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
	t.Run("has no failed workflow task", func(t *testing.T) {
		for id, events := range histories {
			assert.Empty(t, eventsOfType(events, enums.EVENT_TYPE_WORKFLOW_TASK_FAILED), id)
			assert.Empty(t, eventsOfType(events, enums.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT), id)
		}
	})
	t.Run("can be replayed", func(t *testing.T) {
		replayer := worker.NewWorkflowReplayer()
		for name, definition := range map[string]any{
			fleet.BoardWorkflow:          fleet.Board,
			probeworkflow.OutageWorkflow: probeworkflow.Outage,
			probeworkflow.ProbeWorkflow:  probeworkflow.Probe,
		} {
			replayer.RegisterWorkflowWithOptions(definition, sdkworkflow.RegisterOptions{Name: name})
		}
		for id, events := range histories {
			assert.NoError(t, replayer.ReplayWorkflowHistory(log.NewStructuredLogger(discard), &history.History{Events: events}), id)
		}
	})
}

// awaitListed waits until a query for this state of euWest lists exactly its outage
// workflow.
func (s *scenario) awaitListed(t *testing.T, state breaker.State) {
	t.Helper()
	query := fmt.Sprintf("%s = '%s' AND %s = '%s' AND %s = '%s'",
		probeworkflow.SearchState, state, probeworkflow.SearchDependency, euWest.Dependency, probeworkflow.SearchRegion, euWest.Region)
	require.Eventually(t, func() bool {
		found := s.list(t, query)
		return len(found) == 1 && found[0].GetExecution().GetWorkflowId() == probeworkflow.OutageID(euWest)
	}, waitTimeout, 20*time.Millisecond, query)
}

func (s *scenario) list(t *testing.T, query string) []*workflow.WorkflowExecutionInfo {
	t.Helper()
	response, err := s.Client.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
	require.NoError(t, err)
	return response.GetExecutions()
}

// histories returns the events of all executions of these workflow types. Each type must
// have an execution.
func (s *scenario) histories(t *testing.T, types ...string) map[string][]*history.HistoryEvent {
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

func (s *scenario) history(t *testing.T, id, runID string) []*history.HistoryEvent {
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

func eventsOfType(events []*history.HistoryEvent, kind enums.EventType) []*history.HistoryEvent {
	var found []*history.HistoryEvent
	for _, e := range events {
		if e.GetEventType() == kind {
			found = append(found, e)
		}
	}
	return found
}
