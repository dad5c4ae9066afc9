package probeworkflow_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/fleet/member"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// server is a fake Temporal client with only the methods that the activities call.
type server struct {
	client.Client
	operatorservice.OperatorServiceClient
	attributes map[string]enums.IndexedValueType
	err        error

	// pollers holds the pollers of the control task queue.
	pollers []*taskqueue.PollerInfo

	mu         sync.Mutex
	signals    []signal
	started    []signal
	namespaces []string
}

type signal struct {
	workflowID, name string
	arg              any
	options          client.StartWorkflowOptions
	workflow         any
	args             []any
}

func (s *server) SignalWithStartWorkflow(_ context.Context, workflowID, name string, arg any, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signals = append(s.signals, signal{workflowID, name, arg, o, workflow, args})
	return nil, s.err
}

func (s *server) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, signal{workflowID: o.ID, options: o, workflow: workflow, args: args})
	return nil, s.err
}

func (s *server) DescribeTaskQueue(_ context.Context, name string, kind enums.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	if name != "toolbreaker" || kind != enums.TASK_QUEUE_TYPE_ACTIVITY {
		return nil, errors.New("not the control task queue")
	}
	if s.pollers == nil {
		return nil, errors.New("permission denied")
	}
	return &workflowservice.DescribeTaskQueueResponse{Pollers: s.pollers}, nil
}

func (s *server) OperatorService() operatorservice.OperatorServiceClient { return s }

func (s *server) ListSearchAttributes(_ context.Context, r *operatorservice.ListSearchAttributesRequest, _ ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces = append(s.namespaces, r.GetNamespace())
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: s.attributes}, s.err
}

// registered returns an incident with the real workflows and activities.
func registered(t *testing.T, s *server) *incident {
	t.Helper()
	i := bareIncident(t)
	var registry worker.Registry = i.env
	probeworkflow.Register(registry, s, "toolbreaker", func(k breaker.Key) (probeworkflow.Settings, error) {
		if k != key {
			return probeworkflow.Settings{}, errors.New("unknown")
		}
		return settings(), nil
	})
	return i
}

// call runs one of the registered activities.
func call(t *testing.T, s *server, name string, result any, args ...any) error {
	t.Helper()
	i := registered(t, s)
	i.env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		})
		return workflow.ExecuteActivity(ctx, name, args...).Get(ctx, result)
	})
	return i.env.GetWorkflowError()
}

// The first verdict starts the board.
func TestPublish_SignalsTheBoardAndStartsIt(t *testing.T) {
	t.Parallel()
	s := &server{}
	e := fleet.Entry{Key: key, Verdict: breaker.Verdict{State: breaker.Open, Epoch: 5}}
	require.NoError(t, call(t, s, probeworkflow.PublishActivity, nil, e))
	require.Len(t, s.signals, 1)
	sent := s.signals[0]
	assert.Equal(t, fleet.BoardID, sent.workflowID)
	assert.Equal(t, fleet.VerdictSignal, sent.name)
	assert.Equal(t, e, sent.arg)
	assert.Equal(t, member.BoardOptions("toolbreaker"), sent.options)
	assert.Equal(t, fleet.BoardWorkflow, sent.workflow)
	assert.Equal(t, []any{fleet.BoardInput{}}, sent.args)

	s.err = errors.New("out of reach")
	assert.Error(t, call(t, s, probeworkflow.PublishActivity, nil, e))
}

// polling returns n workers that have polled recently.
func polling(n int) []*taskqueue.PollerInfo {
	var all []*taskqueue.PollerInfo
	for i := range n {
		all = append(all, &taskqueue.PollerInfo{Identity: fmt.Sprintf("worker-%d", i), LastAccessTime: timestamppb.Now()})
	}
	return all
}

func TestPoll_CountsTheFleetAndPollsASample(t *testing.T) {
	t.Parallel()
	stopped := &taskqueue.PollerInfo{Identity: "stopped", LastAccessTime: timestamppb.New(time.Now().Add(-4 * time.Minute))}
	for name, c := range map[string]struct {
		pollers        []*taskqueue.PollerInfo
		reported       int
		givenOneIn     int
		workers, oneIn int
		polls          bool
	}{
		"all of a small fleet":      {pollers: polling(3), reported: 1, workers: 3, oneIn: 1, polls: true},
		"a sample of a large fleet": {pollers: polling(1000), reported: 1, workers: 1000, oneIn: 41, polls: true},
		"a larger sample":           {pollers: polling(1000), reported: 40, givenOneIn: 7, workers: 1000, oneIn: 7, polls: true},
		"a worker with two pollers": {pollers: append(polling(2), polling(2)...), reported: 1, workers: 2, oneIn: 1, polls: true},
		"a stopped worker":          {pollers: append(polling(2), stopped), reported: 1, workers: 2, oneIn: 1, polls: true},
		"all have reported":         {pollers: polling(2), reported: 2, workers: 2, oneIn: 1},
		"the count fails":           {reported: 1, oneIn: 1, polls: true},
		"no recent poller":          {pollers: []*taskqueue.PollerInfo{stopped}, reported: 1, oneIn: 1, polls: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{pollers: c.pollers}
			in := probeworkflow.PollInput{Poll: fleet.Poll{Key: key, Outage: "outage/carrier-api/eu-west", Round: 7, OneIn: 1}, OneIn: c.givenOneIn, Reported: c.reported}
			var p fleet.Poll
			require.NoError(t, call(t, s, probeworkflow.PollActivity, &p, in))
			want := in.Poll
			want.Workers, want.OneIn = c.workers, c.oneIn
			assert.Equal(t, want, p)
			if !c.polls {
				assert.Empty(t, s.signals)
				return
			}
			require.Len(t, s.signals, 1)
			assert.Equal(t, fleet.BoardID, s.signals[0].workflowID)
			assert.Equal(t, fleet.PollSignal, s.signals[0].name)
			assert.Equal(t, want, s.signals[0].arg)
		})
	}
}

func TestSuspect_StartsAnOutageWithTheSettingsOfThisProcess(t *testing.T) {
	t.Parallel()
	s := &server{}
	require.NoError(t, call(t, s, fleet.SuspectActivity, nil, key))
	require.Len(t, s.started, 1)
	assert.Equal(t, "outage/carrier-api/eu-west", s.started[0].workflowID)
	assert.Equal(t, probeworkflow.StartOutage(key, "toolbreaker"), s.started[0].options)
	assert.Equal(t, []any{probeworkflow.OutageInput{Settings: settings()}}, s.started[0].args)

	assert.Error(t, call(t, s, fleet.SuspectActivity, nil, breaker.Key{Dependency: "unknown", Region: "eu-west"}))
	assert.Len(t, s.started, 1)
}

func TestSearchAttributes_ExistIfAllAreKeywords(t *testing.T) {
	t.Parallel()
	const keyword, text = enums.INDEXED_VALUE_TYPE_KEYWORD, enums.INDEXED_VALUE_TYPE_TEXT
	for name, c := range map[string]struct {
		attributes map[string]enums.IndexedValueType
		want       bool
	}{
		"all":             {map[string]enums.IndexedValueType{"BreakerDependency": keyword, "BreakerRegion": keyword, "BreakerState": keyword}, true},
		"and others":      {map[string]enums.IndexedValueType{"BreakerDependency": keyword, "BreakerRegion": keyword, "BreakerState": keyword, "Tenant": text}, true},
		"none":            {nil, false},
		"one is missing":  {map[string]enums.IndexedValueType{"BreakerDependency": keyword, "BreakerRegion": keyword}, false},
		"of another kind": {map[string]enums.IndexedValueType{"BreakerDependency": keyword, "BreakerRegion": keyword, "BreakerState": text}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &server{attributes: c.attributes}
			var has bool
			require.NoError(t, call(t, s, probeworkflow.SearchAttributesActivity, &has))
			assert.Equal(t, c.want, has)
			assert.Equal(t, []string{"default-test-namespace"}, s.namespaces, "the namespace of the activity")
		})
	}
	assert.Error(t, call(t, &server{err: errors.New("permission denied")}, probeworkflow.SearchAttributesActivity, new(bool)))
}

// The registered workflows and activities work together with a tool.
func TestRegister_RunsAnOutage(t *testing.T) {
	t.Parallel()
	s := &server{pollers: polling(1)}
	i := registered(t, s)
	var probes []query
	i.env.RegisterActivityWithOptions(func(_ context.Context, q query) (string, error) {
		probes = append(probes, q)
		if len(probes) == 2 {
			return "", errors.New("still down")
		}
		return "delivered", nil
	}, activity.RegisterOptions{Name: "get_delivery_status"})
	with := settings()
	with.Call.Args = probeInput(t, 1).Call.Args
	i.run(with)

	report := i.result()
	assert.Equal(t, "recovered", report.Outcome)
	assert.Equal(t, 2, report.Rounds)
	assert.Equal(t, 2+3+3, report.Probes, "one passed and one failed, three passed, one for each step of the ramp")
	assert.Len(t, probes, report.Probes)
	assert.Equal(t, query{ID: "PROBE-1"}, probes[0])
	var states []string
	for _, sent := range s.signals {
		if e, ok := sent.arg.(fleet.Entry); ok {
			states = append(states, e.Verdict.State.String())
		}
	}
	assert.Equal(t, []string{
		"open", "half-open", "open", "half-open", "recovering", "recovering", "recovering", "closed",
	}, states)
}
