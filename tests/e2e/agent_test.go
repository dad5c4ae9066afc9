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

// insists is how many times a model calls a tool that it was told is dead.
const insists = 10

// insistent is a model that calls the dead tool whatever it reads, and then
// has no answer either.
type insistent struct{}

func (insistent) Next(_ context.Context, c agent.Conversation) (agent.Turn, error) {
	if len(c.Transcript) < insists {
		return agent.Turn{Calls: []agent.Call{{
			Tool: carriertools.GetDeliveryStatus, Args: json.RawMessage(`{"tracking_id": "PKG-1", "region": "eu-west"}`),
		}}}, nil
	}
	return agent.Turn{}, assert.AnError
}

// brokenModel is the agent's first model.
type brokenModel struct{}

func (brokenModel) Next(context.Context, agent.Conversation) (agent.Turn, error) {
	return agent.Turn{}, assert.AnError
}

func TestInsistentModelCostsADeadDependencyNothing(t *testing.T) {
	t.Parallel()
	s := newStory(t, 10)
	d := s.openDesk("tools", touchy)
	d.trip()
	require.Eventually(t, func() bool { return d.plugin.Breakers()[0].Outage != "" }, patience, 10*time.Millisecond)

	const queue, firstModel, secondModel = "agent", "model-first", "model-second"
	server, err := carrier.Start(carrier.Options{Speed: s.Options.Speed})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	calls := carrierAPI(touchy)
	calls.Region = agent.Region
	plugin, err := interceptor.NewPlugin(s.Client, interceptor.Config{
		Dependencies: []interceptor.Dependency{
			calls,
			{Name: firstModel, Tools: interceptor.Tools(agent.ModelActivity(0)), Breaker: touchy, Probe: interceptor.NoProbe()},
			{Name: secondModel, Tools: interceptor.Tools(agent.ModelActivity(1)), Probe: interceptor.NoProbe()},
		},
		Region: agent.HomeRegion,
		Logger: log.NewStructuredLogger(discard),
	})
	require.NoError(t, err)
	w := worker.New(s.Client, queue, worker.Options{Plugins: []worker.Plugin{plugin}})
	registerTools(w, server.URL())
	agent.Register(w, brokenModel{}, insistent{})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	for _, dead := range []bool{false, true} { // the first model's breaker: this run's failures open it
		run, err := s.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue},
			agent.WorkflowType, agent.Ticket{ID: "insistent", OrderID: "EU-1", Speed: s.Options.Speed})
		require.NoError(t, err)
		outcome := await[agent.Outcome](t, run)
		assert.Equal(t, insists, outcome.Unavailable)
		assert.True(t, outcome.Partial)
		assert.NotEmpty(t, outcome.Text)
		assert.Contains(t, outcome.Escalation, "carrier-api (eu-west) is temporarily unavailable")

		scheduled := map[string]int{}
		events := s.history(t, run.GetID(), run.GetRunID())
		for _, e := range ofType(events, enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) {
			scheduled[e.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()]++
		}
		assert.LessOrEqual(t, scheduled[carriertools.GetDeliveryStatus], 1)
		assert.Equal(t, 1, scheduled[agent.ModelActivity(0)], "an unavailable model costs a run one activity")
		assert.Equal(t, insists+1, scheduled[agent.ModelActivity(1)])
		if dead {
			assert.Contains(t, outcome.Escalation, firstModel+" (eu-west) is temporarily unavailable")
		}
	}
	assert.Empty(t, server.Calls())
}
