package e2e_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/worker/agent"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

// repeatedCalls is how often repeatingModel calls an unavailable tool.
const repeatedCalls = 10

// repeatingModel calls the same tool after each refusal, and then fails.
type repeatingModel struct{}

func (repeatingModel) Next(_ context.Context, c agent.Conversation) (agent.Turn, error) {
	if len(c.Transcript) < repeatedCalls {
		return agent.Turn{Calls: []agent.Call{{
			Tool: carriertools.GetDeliveryStatus, Args: json.RawMessage(`{"tracking_id": "PKG-1", "region": "eu-west"}`),
		}}}, nil
	}
	return agent.Turn{}, assert.AnError
}

// failingModel always fails.
type failingModel struct{}

func (failingModel) Next(context.Context, agent.Conversation) (agent.Turn, error) {
	return agent.Turn{}, assert.AnError
}

func TestRepeatedCallsOfAModelDoNotReachAnUnavailableDependency(t *testing.T) {
	t.Parallel()
	s := newScenario(t, 10)
	tools := s.startToolWorker("tools", tripsAfterThree)
	tools.trip()
	require.Eventually(t, func() bool { return tools.plugin.Breakers()[0].Outage != "" }, waitTimeout, 10*time.Millisecond)

	const queue, firstModel, secondModel = "agent", "model-first", "model-second"
	server, err := carrier.Start(carrier.Options{Speed: s.Options.Speed})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	calls := carrierAPI(tripsAfterThree)
	calls.Region = agent.Region
	plugin, err := interceptor.NewPlugin(s.Client, interceptor.Config{
		Dependencies: []interceptor.Dependency{
			calls,
			{Name: firstModel, Tools: interceptor.Tools(agent.ModelActivity(0)), Breaker: tripsAfterThree, Probe: interceptor.NoProbe()},
			{Name: secondModel, Tools: interceptor.Tools(agent.ModelActivity(1)), Probe: interceptor.NoProbe()},
		},
		Region: agent.HomeRegion,
		Logger: log.NewStructuredLogger(discard),
	})
	require.NoError(t, err)
	w := worker.New(s.Client, queue, worker.Options{Plugins: []worker.Plugin{plugin}})
	registerTools(w, server.URL())
	agent.Register(w, failingModel{}, repeatingModel{})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	// The first run's failures open the breaker of the first model.
	for _, firstModelOpen := range []bool{false, true} {
		run, err := s.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue},
			agent.WorkflowType, agent.Ticket{ID: "repeating", OrderID: "EU-1", Speed: s.Options.Speed})
		require.NoError(t, err)
		outcome := awaitResult[agent.Outcome](t, run)
		assert.Equal(t, repeatedCalls, outcome.Unavailable)
		assert.True(t, outcome.Partial)
		assert.NotEmpty(t, outcome.Text)
		assert.Contains(t, outcome.Escalation, "carrier-api (eu-west) is temporarily unavailable")

		scheduled := map[string]int{}
		events := s.history(t, run.GetID(), run.GetRunID())
		for _, e := range eventsOfType(events, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) {
			scheduled[e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()]++
		}
		assert.LessOrEqual(t, scheduled[carriertools.GetDeliveryStatus], 1)
		assert.Equal(t, 1, scheduled[agent.ModelActivity(0)], "a run calls an unavailable model once")
		assert.Equal(t, repeatedCalls+1, scheduled[agent.ModelActivity(1)])
		if firstModelOpen {
			assert.Contains(t, outcome.Escalation, firstModel+" (eu-west) is temporarily unavailable")
		}
	}
	assert.Empty(t, server.Calls())
}
