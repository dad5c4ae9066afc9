package probeworkflow_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

var (
	anything = mock.Anything
	start    = time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC)
	key      = breaker.Key{Dependency: "carrier-api", Region: "eu-west"}
)

type entry = fleet.Entry

// settings returns the settings of a dependency with a probe.
func settings() probeworkflow.Settings {
	return probeworkflow.Settings{
		Key: key,
		Breaker: breaker.Config{
			Window: time.Minute, FastWindow: 10 * time.Second, FailureRate: 0.5, MinSamples: 10,
			Latency: 2 * time.Second, Cooldown: 10 * time.Second, MaxCooldown: 40 * time.Second,
			ProbeSuccesses: 3, ProbeInterval: time.Second,
			Ramp: []int{10, 50, 100}, RampStep: 5 * time.Second, RampMinSamples: 5,
		}.WithDefaults(),
		Call: &probeworkflow.Call{Activity: "get_delivery_status", TaskQueue: "tools", QueueTimeout: 8 * time.Second},
	}
}

func withoutProbe() probeworkflow.Settings {
	s := settings()
	s.Call = nil
	return s
}

// incident runs one outage workflow with fakes of the board, the probe workflow and
// the workers.
type incident struct {
	t   *testing.T
	env *testsuite.TestWorkflowEnvironment

	// probe returns the finding of the n-th round of probes, from 1. Default: passed.
	probe func(n int) probeworkflow.Finding
	// probing is how long a round of probes takes. Default: one second.
	probing time.Duration
	// probed holds the rounds that were run.
	probed []probeworkflow.ProbeInput

	// fleet is the number of workers. Default: one.
	fleet int
	// polls holds the inputs of the poll activity.
	polls []probeworkflow.PollInput
	// onPoll is called with each poll and its number, from 1.
	onPoll func(n int, p fleet.Poll)
	// dismissals holds the published dismissals.
	dismissals []fleet.Entry

	// onVerdict is called with each published verdict and its number, from 1, before
	// the publish activity completes.
	onVerdict func(n int, v breaker.Verdict)

	mu       sync.Mutex
	verdicts []breaker.Verdict
	times    []time.Time
	sequence int64
}

func newIncident(t *testing.T) *incident {
	t.Helper()
	i := bareIncident(t)
	i.env.RegisterWorkflowWithOptions(probeworkflow.Outage, workflow.RegisterOptions{Name: probeworkflow.OutageWorkflow})
	i.env.RegisterWorkflowWithOptions(i.fakeProbe, workflow.RegisterOptions{Name: probeworkflow.ProbeWorkflow})
	i.env.RegisterActivityWithOptions(i.fakePublish, activity.RegisterOptions{Name: probeworkflow.PublishActivity})
	i.env.RegisterActivityWithOptions(i.fakePoll, activity.RegisterOptions{Name: probeworkflow.PollActivity})
	i.env.RegisterActivityWithOptions(func(context.Context) (bool, error) { return false, nil },
		activity.RegisterOptions{Name: probeworkflow.SearchAttributesActivity})
	return i
}

// bareIncident returns an incident without registered workflows and activities.
func bareIncident(t *testing.T) *incident {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	i := &incident{
		t: t, env: suite.NewTestWorkflowEnvironment(), probing: time.Second,
		probe:     func(int) probeworkflow.Finding { return probeworkflow.Passed },
		onVerdict: func(int, breaker.Verdict) {},
		fleet:     1, onPoll: func(int, fleet.Poll) {},
	}
	i.env.SetStartTime(start)
	i.env.SetTestTimeout(time.Minute)
	i.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: probeworkflow.OutageID(key), TaskQueue: "toolbreaker"})
	return i
}

func (i *incident) fakeProbe(ctx workflow.Context, in probeworkflow.ProbeInput) (probeworkflow.ProbeReport, error) {
	i.probed = append(i.probed, in)
	finding := i.probe(len(i.probed))
	if err := workflow.Sleep(ctx, i.probing); err != nil {
		return probeworkflow.ProbeReport{}, err
	}
	if finding == broken {
		return probeworkflow.ProbeReport{}, fmt.Errorf("the probe workflow failed")
	}
	report := probeworkflow.ProbeReport{Finding: finding}
	calls := 1
	if finding == probeworkflow.Passed {
		calls = in.Successes
	}
	for range calls {
		report.Calls = append(report.Calls, probeworkflow.ProbedCall{Finding: finding})
	}
	return report, nil
}

// broken is the finding with which the fake probe workflow returns an error.
const broken probeworkflow.Finding = "broken"

func (i *incident) fakePoll(_ context.Context, in probeworkflow.PollInput) (fleet.Poll, error) {
	p := in.Poll
	p.Workers = i.fleet
	if p.OneIn = in.OneIn; p.OneIn == 0 {
		p.OneIn = fleet.OneIn(i.fleet)
	}
	i.mu.Lock()
	i.polls = append(i.polls, in)
	n := len(i.polls)
	i.mu.Unlock()
	i.onPoll(n, p)
	return p, nil
}

func (i *incident) fakePublish(_ context.Context, e fleet.Entry) error {
	assert.Equal(i.t, key, e.Key)
	i.mu.Lock()
	if e.Dismissed {
		i.dismissals = append(i.dismissals, e)
		i.mu.Unlock()
		return nil
	}
	i.verdicts = append(i.verdicts, e.Verdict)
	i.times = append(i.times, i.env.Now())
	n := len(i.verdicts)
	i.mu.Unlock()
	i.onVerdict(n, e.Verdict)
	return nil
}

// at runs f at a time after the start.
func (i *incident) at(after time.Duration, f func()) { i.env.RegisterDelayedCallback(f, after) }

// send sends a report now, as the newest of its worker.
func (i *incident) send(r fleet.Report) {
	i.env.SignalWorkflow(probeworkflow.ReportSignal, i.numbered(r))
}

// sendWithNextTask adds a report to the next workflow task that something else
// causes.
func (i *incident) sendWithNextTask(r fleet.Report) {
	i.env.SignalWorkflowSkippingWorkflowTask(probeworkflow.ReportSignal, i.numbered(r))
}

func (i *incident) numbered(r fleet.Report) fleet.Report {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sequence++
	r.Sequence = i.sequence
	return r
}

// run starts the outage with a report that is enough for a verdict.
func (i *incident) run(s probeworkflow.Settings) { i.runWith(s, down("worker-1")) }

// runWith starts the outage with these reports.
func (i *incident) runWith(s probeworkflow.Settings, reports ...fleet.Report) {
	i.at(0, func() {
		for _, r := range reports {
			i.send(r)
		}
	})
	i.start(probeworkflow.OutageInput{Settings: s})
}

func (i *incident) start(in probeworkflow.OutageInput) {
	i.t.Helper()
	i.env.ExecuteWorkflow(probeworkflow.OutageWorkflow, in)
	require.True(i.t, i.env.IsWorkflowCompleted())
}

// result returns the report of a completed outage.
func (i *incident) result() probeworkflow.OutageReport {
	i.t.Helper()
	require.NoError(i.t, i.env.GetWorkflowError())
	var report probeworkflow.OutageReport
	require.NoError(i.t, i.env.GetWorkflowResult(&report))
	return report
}

// carried returns the input of the next run of an outage that continued as new.
func (i *incident) carried() probeworkflow.OutageInput {
	i.t.Helper()
	var next *workflow.ContinueAsNewError
	require.ErrorAs(i.t, i.env.GetWorkflowError(), &next)
	assert.Equal(i.t, probeworkflow.OutageWorkflow, next.WorkflowType.Name)
	var in probeworkflow.OutageInput
	require.NoError(i.t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.NotNil(i.t, in.Carried)
	return in
}

// states returns the published states in order, as "open" or "recovering 10%".
func (i *incident) states() []string {
	states := []string{}
	for _, v := range i.ordered() {
		if v.State == breaker.Recovering {
			states = append(states, fmt.Sprintf("%v %d%%", v.State, v.Share))
		} else {
			states = append(states, v.State.String())
		}
	}
	return states
}

// ordered returns the published verdicts by epoch. The publish activities may
// complete in any order.
func (i *incident) ordered() []breaker.Verdict {
	return slices.SortedFunc(slices.Values(i.verdicts), func(a, b breaker.Verdict) int { return int(a.Epoch - b.Epoch) })
}

// of returns the verdicts of one state.
func (i *incident) of(state breaker.State) []breaker.Verdict {
	return slices.DeleteFunc(i.ordered(), func(v breaker.Verdict) bool { return v.State != state })
}

// cooldowns returns the planned length of each open state.
func (i *incident) cooldowns() []time.Duration {
	var cooldowns []time.Duration
	for n, v := range i.verdicts {
		if v.State == breaker.Open {
			cooldowns = append(cooldowns, v.Next.Sub(i.times[n]))
		}
	}
	return cooldowns
}

func (i *incident) status() probeworkflow.Status {
	i.t.Helper()
	value, err := i.env.QueryWorkflow(probeworkflow.StateQuery)
	require.NoError(i.t, err)
	var status probeworkflow.Status
	require.NoError(i.t, value.Get(&status))
	return status
}

// details returns the current details, which the Temporal UI shows.
func (i *incident) details() string {
	i.t.Helper()
	value, err := i.env.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(i.t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(i.t, value.Get(&metadata))
	return metadata.GetCurrentDetails()
}

// down returns the report of a worker whose breaker tripped.
func down(worker string) fleet.Report {
	return fleet.Report{Worker: worker, State: breaker.Closed, Evidence: breaker.Evidence{Window: breaker.Counts{Samples: 20, Failures: 20}}}
}

// healthy returns the report of a worker that reaches the dependency.
func healthy(worker string) fleet.Report {
	return fleet.Report{Worker: worker, State: breaker.Closed, Evidence: breaker.Evidence{Window: breaker.Counts{Samples: 20}}}
}

// onRamp returns a worker's report of the calls of a ramp under a verdict.
func onRamp(worker string, v breaker.Verdict, calls, failures int) fleet.Report {
	return fleet.Report{
		Worker: worker, State: breaker.Recovering, Epoch: v.Epoch,
		Evidence: breaker.Evidence{Window: breaker.Counts{Samples: calls, Failures: failures}, Ramp: calls},
	}
}

// busy reports enough new successful calls at each step of a ramp, so that no step
// needs a probe.
func (i *incident) busy(_ int, v breaker.Verdict) {
	if v.State == breaker.Recovering {
		i.send(onRamp("worker-1", v, 20*(v.Step+1), 0))
	}
}

// about asserts that a cooldown is within its jitter of a tenth.
func about(t *testing.T, want, got time.Duration) {
	t.Helper()
	assert.InDelta(t, want.Seconds(), got.Seconds(), want.Seconds()/10)
}

// allStates are the states of an outage whose first probes and ramp succeed.
var allStates = []string{"open", "half-open", "recovering 10%", "recovering 50%", "recovering 100%", "closed"}
