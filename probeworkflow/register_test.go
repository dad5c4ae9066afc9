package probeworkflow_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// server stands in for Temporal: only what the activities call is there.
type server struct {
	client.Client
	operatorservice.OperatorServiceClient
	attributes map[string]enums.IndexedValueType
	err        error

	mu       sync.Mutex
	signals  []signal
	askedFor []string
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

func (s *server) OperatorService() operatorservice.OperatorServiceClient { return s }

func (s *server) ListSearchAttributes(_ context.Context, r *operatorservice.ListSearchAttributesRequest, _ ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.askedFor = append(s.askedFor, r.GetNamespace())
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: s.attributes}, s.err
}

// registered is an incident whose own parts are the real ones.
func registered(t *testing.T, s *server) *incident {
	t.Helper()
	i := bareIncident(t)
	var registry worker.Registry = i.env
	probeworkflow.Register(registry, s, "toolbreaker")
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

// The board is started with the first verdict there is, by whoever has it.
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
	assert.Equal(t, fleet.BoardOptions("toolbreaker"), sent.options)
	assert.Equal(t, fleet.BoardWorkflow, sent.workflow)
	assert.Equal(t, []any{fleet.Table{}}, sent.args)

	s.err = errors.New("out of reach")
	assert.Error(t, call(t, s, probeworkflow.PublishActivity, nil, e))
}

func TestSearchAttributes_AreThereWhenAllOfThemAreKeywords(t *testing.T) {
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
			assert.Equal(t, []string{"default-test-namespace"}, s.askedFor, "of the namespace it runs in")
		})
	}
	assert.Error(t, call(t, &server{err: errors.New("permission denied")}, probeworkflow.SearchAttributesActivity, new(bool)))
}

// The registered parts fit together: outage, probe workflow, the tool itself and
// the board.
func TestRegister_GivesAWholeOutage(t *testing.T) {
	t.Parallel()
	s := &server{}
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
		states = append(states, sent.arg.(fleet.Entry).Verdict.State.String())
	}
	assert.Equal(t, []string{
		"open", "half-open", "open", "half-open", "recovering", "recovering", "recovering", "closed",
	}, states)
}
