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

// tripsAfterThree configures the breaker of toolWorker.trip.
var tripsAfterThree = tripsAfter(3)

// toolWorker is a worker with its own task queue and plugin, like a process of a fleet.
// Each of its workflows calls one tool.
type toolWorker struct {
	t           *testing.T
	client      client.Client
	queue       string
	transitions *transitions
	plugin      *interceptor.Plugin
	carrier     *carrier.Server
}

// startToolWorker starts a worker whose tools call its own carrier, which records the calls
// that the worker's breaker allows. Both stop when the test ends.
func (s *scenario) startToolWorker(queue string, config breaker.Config) *toolWorker {
	s.t.Helper()
	server, err := carrier.Start(carrier.Options{Speed: s.Options.Speed})
	require.NoError(s.t, err)
	s.t.Cleanup(server.Stop)
	w := &toolWorker{t: s.t, client: s.Client, queue: queue, transitions: newTransitions(), carrier: server}
	w.plugin, err = interceptor.NewPlugin(s.Client, interceptor.Config{
		Dependencies: []interceptor.Dependency{carrierAPI(config)},
		Region:       carriertools.RegionEUWest,
		OnTransition: w.transitions.record,
		Logger:       log.NewStructuredLogger(discard),
	})
	require.NoError(s.t, err)
	sdkWorker := worker.New(s.Client, queue, worker.Options{Plugins: []worker.Plugin{w.plugin}})
	registerTools(sdkWorker, server.URL())
	sdkWorker.RegisterWorkflow(callTool)
	sdkWorker.RegisterWorkflow(callToolWithDefaultRetries)
	require.NoError(s.t, sdkWorker.Start())
	s.t.Cleanup(sdkWorker.Stop)
	return w
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

// callTool is a workflow that calls a tool with one attempt.
func callTool(ctx workflow.Context, tool string) (toolcall.Result[json.RawMessage], error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: waitTimeout,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	return toolcall.Execute[json.RawMessage](ctx, tool, carriertools.Query{TrackingID: "PKG-1"})
}

// callToolWithDefaultRetries is a workflow that calls a tool with the default retry policy,
// which has no limit.
func callToolWithDefaultRetries(ctx workflow.Context, tool string) (toolcall.Result[json.RawMessage], error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: waitTimeout})
	return toolcall.Execute[json.RawMessage](ctx, tool, carriertools.Query{TrackingID: "PKG-1"})
}

func (w *toolWorker) start(workflow any, tool string) client.WorkflowRun {
	w.t.Helper()
	run, err := w.client.ExecuteWorkflow(w.t.Context(), client.StartWorkflowOptions{TaskQueue: w.queue}, workflow, tool)
	require.NoError(w.t, err)
	return run
}

// call calls a tool in a workflow and returns its result.
func (w *toolWorker) call(tool string) toolcall.Result[json.RawMessage] {
	w.t.Helper()
	return awaitResult[toolcall.Result[json.RawMessage]](w.t, w.start(callTool, tool))
}

// trip makes failing calls until the worker's breaker opens. The carrier keeps failing.
func (w *toolWorker) trip() breaker.Transition {
	w.t.Helper()
	require.NoError(w.t, w.carrier.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Error}))
	started := time.Now()
	for range tripsAfterThree.MinSamples {
		require.Equal(w.t, toolcall.Failed, w.call(carriertools.GetDeliveryStatus).Outcome())
	}
	return w.transitions.await(w.t, euWest, breaker.Open, started)
}

// awaitResult returns a run's result. It requests the result again every second, because
// the server can fail to notify a waiting request.
func awaitResult[T any](t *testing.T, run client.WorkflowRun) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	for {
		poll, stop := context.WithCancel(ctx)
		timer := time.AfterFunc(time.Second, stop)
		var result T
		err := run.Get(poll, &result)
		retry := err != nil && poll.Err() != nil && ctx.Err() == nil
		timer.Stop()
		stop()
		if !retry {
			require.NoError(t, err)
			return result
		}
	}
}

// table returns the board's table.
func (s *scenario) table() fleet.Table {
	s.t.Helper()
	value, err := s.Client.QueryWorkflow(s.t.Context(), fleet.BoardID, "", fleet.TableQuery)
	require.NoError(s.t, err)
	var table fleet.Table
	require.NoError(s.t, value.Get(&table))
	return table
}
