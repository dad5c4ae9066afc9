package e2e_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

// statusResult is get_delivery_status with a result type that holds a refusal.
const statusResult = "get_delivery_status_result"

// touchy is a breaker that three failures open, however long they take to come, and
// that stays open for longer than any test that uses it.
var touchy = breaker.Config{MinSamples: 3, Window: time.Hour, Cooldown: time.Hour}

// desk is a worker with a task queue and a plugin of its own, as another process
// of a fleet has them. Its workflows call one tool.
type desk struct {
	t       *testing.T
	client  client.Client
	queue   string
	edges   *edges
	plugin  *interceptor.Plugin
	carrier *carrier.Server
}

// openDesk starts a desk until the test ends, whose tools call a carrier of its
// own, so that what it lets through is counted apart.
func (s *story) openDesk(queue string, config breaker.Config) *desk {
	s.t.Helper()
	server, err := carrier.Start(carrier.Options{Speed: s.Options.Speed})
	require.NoError(s.t, err)
	s.t.Cleanup(server.Stop)
	d := &desk{t: s.t, client: s.Client, queue: queue, edges: newEdges(), carrier: server}
	d.plugin, err = interceptor.NewPlugin(s.Client, interceptor.Config{
		Dependencies: []interceptor.Dependency{carrierAPI(config)},
		Region:       carriertools.RegionEUWest,
		OnTransition: d.edges.record,
		Logger:       log.NewStructuredLogger(discard),
	})
	require.NoError(s.t, err)
	w := worker.New(s.Client, queue, worker.Options{Plugins: []worker.Plugin{d.plugin}})
	registerTools(w, server.URL())
	w.RegisterWorkflow(callTool)
	w.RegisterWorkflow(callToolPatiently)
	require.NoError(s.t, w.Start())
	s.t.Cleanup(w.Stop)
	return d
}

func carrierAPI(config breaker.Config) interceptor.Dependency {
	return interceptor.Dependency{
		Name:    carriertools.Dependency,
		Tools:   interceptor.Tools(carriertools.GetDeliveryStatus, carriertools.GetTrackingEvents, carriertools.CreateReturnLabel, statusResult),
		Breaker: config,
		Probe:   interceptor.Synthetic(carriertools.GetDeliveryStatus, carriertools.Query{TrackingID: "PROBE-0001"}),
	}
}

func registerTools(w worker.ActivityRegistry, carrierURL string) {
	tools := &carriertools.Tools{BaseURL: carrierURL, Region: carriertools.RegionEUWest}
	tools.Register(w)
	w.RegisterActivityWithOptions(func(ctx context.Context, q carriertools.Query) (toolcall.Result[carriertools.Status], error) {
		status, err := tools.GetDeliveryStatus(ctx, q)
		return toolcall.Value(status), err
	}, activity.RegisterOptions{Name: statusResult})
}

// callTool calls a tool once.
func callTool(ctx workflow.Context, tool string) (toolcall.Result[json.RawMessage], error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: patience,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	return toolcall.Execute[json.RawMessage](ctx, tool, carriertools.Query{TrackingID: "PKG-1"})
}

// callToolPatiently calls a tool with Temporal's default policy: retries without
// end.
func callToolPatiently(ctx workflow.Context, tool string) (toolcall.Result[json.RawMessage], error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: patience})
	return toolcall.Execute[json.RawMessage](ctx, tool, carriertools.Query{TrackingID: "PKG-1"})
}

// start starts a workflow that calls a tool.
func (d *desk) start(workflow any, tool string) client.WorkflowRun {
	d.t.Helper()
	run, err := d.client.ExecuteWorkflow(d.t.Context(), client.StartWorkflowOptions{TaskQueue: d.queue}, workflow, tool)
	require.NoError(d.t, err)
	return run
}

// call calls a tool once and gives what the workflow reads.
func (d *desk) call(tool string) toolcall.Result[json.RawMessage] {
	d.t.Helper()
	return await[toolcall.Result[json.RawMessage]](d.t, d.start(callTool, tool))
}

// trip makes the desk's carrier fail until the desk's breaker opens by itself.
func (d *desk) trip() breaker.Transition {
	d.t.Helper()
	require.NoError(d.t, d.carrier.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Error}))
	begun := time.Now()
	for range touchy.MinSamples {
		require.Equal(d.t, toolcall.Failed, d.call(carriertools.GetDeliveryStatus).Outcome())
	}
	return d.edges.await(d.t, euWest, breaker.Open, begun)
}

// await gives a run's result. The server may miss to tell one who waits of a
// run's end; one who asks again every second is told.
func await[T any](t *testing.T, run client.WorkflowRun) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		poll, stop := context.WithCancel(ctx)
		timer := time.AfterFunc(time.Second, stop)
		var result T
		err := run.Get(poll, &result)
		askAgain := err != nil && poll.Err() != nil && ctx.Err() == nil
		timer.Stop()
		stop()
		if !askAgain {
			require.NoError(t, err)
			return result
		}
	}
}

// table is the board's content.
func (s *story) table() fleet.Table {
	s.t.Helper()
	value, err := s.Client.QueryWorkflow(s.t.Context(), fleet.BoardID, "", fleet.TableQuery)
	require.NoError(s.t, err)
	var table fleet.Table
	require.NoError(s.t, value.Get(&table))
	return table
}
