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

// settings are those of a dependency with a probe.
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

// incident plays one run of an outage workflow. Everything around it is played
// too: the board hears what is published, the probe workflow finds what it is
// told to, and the workers report what a test sends.
type incident struct {
	t   *testing.T
	env *testsuite.TestWorkflowEnvironment

	// probe says what the n-th round of probes finds, from 1. Default: passed.
	probe func(n int) probeworkflow.Finding
	// probing is how long a round takes. Default: a second.
	probing time.Duration
	// probed are the rounds that were run.
	probed []probeworkflow.ProbeInput

	// fleet is how many workers there are. Default: one.
	fleet int
	// asked are the questions that were put to it.
	asked []probeworkflow.PollInput
	// asking is told each question, with its number, from 1.
	asking func(n int, q fleet.Poll)
	// dismissals are the entries that say that nothing is down.
	dismissals []fleet.Entry

	// heard is told each verdict that arrives at the board, with its number,
	// from 1, before the outage hears that it has arrived.
	heard func(n int, v breaker.Verdict)

	mu       sync.Mutex
	verdicts []breaker.Verdict
	times    []time.Time
	sequence int64
}

func newIncident(t *testing.T) *incident {
	t.Helper()
	i := bareIncident(t)
	i.env.RegisterWorkflowWithOptions(probeworkflow.Outage, workflow.RegisterOptions{Name: probeworkflow.OutageWorkflow})
	i.env.RegisterWorkflowWithOptions(i.playProbe, workflow.RegisterOptions{Name: probeworkflow.ProbeWorkflow})
	i.env.RegisterActivityWithOptions(i.playPublish, activity.RegisterOptions{Name: probeworkflow.PublishActivity})
	i.env.RegisterActivityWithOptions(i.playAsk, activity.RegisterOptions{Name: probeworkflow.PollActivity})
	i.env.RegisterActivityWithOptions(func(context.Context) (bool, error) { return false, nil },
		activity.RegisterOptions{Name: probeworkflow.SearchAttributesActivity})
	return i
}

// bareIncident has nothing registered yet.
func bareIncident(t *testing.T) *incident {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	i := &incident{
		t: t, env: suite.NewTestWorkflowEnvironment(), probing: time.Second,
		probe: func(int) probeworkflow.Finding { return probeworkflow.Passed },
		heard: func(int, breaker.Verdict) {},
		fleet: 1, asking: func(int, fleet.Poll) {},
	}
	i.env.SetStartTime(start)
	i.env.SetTestTimeout(time.Minute)
	i.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: probeworkflow.OutageID(key), TaskQueue: "toolbreaker"})
	return i
}

func (i *incident) playProbe(ctx workflow.Context, in probeworkflow.ProbeInput) (probeworkflow.ProbeReport, error) {
	i.probed = append(i.probed, in)
	finding := i.probe(len(i.probed))
	if err := workflow.Sleep(ctx, i.probing); err != nil {
		return probeworkflow.ProbeReport{}, err
	}
	if finding == broken {
		return probeworkflow.ProbeReport{}, fmt.Errorf("the probe workflow itself failed")
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

// broken is a probe workflow that ends in an error of its own.
const broken probeworkflow.Finding = "broken"

func (i *incident) playAsk(_ context.Context, in probeworkflow.PollInput) (fleet.Poll, error) {
	q := in.Poll
	q.Workers = i.fleet
	if q.OneIn = in.OneIn; q.OneIn == 0 {
		q.OneIn = fleet.OneIn(i.fleet)
	}
	i.mu.Lock()
	i.asked = append(i.asked, in)
	n := len(i.asked)
	i.mu.Unlock()
	i.asking(n, q)
	return q, nil
}

func (i *incident) playPublish(_ context.Context, e fleet.Entry) error {
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
	i.heard(n, e.Verdict)
	return nil
}

// at runs f at a time after the start.
func (i *incident) at(after time.Duration, f func()) { i.env.RegisterDelayedCallback(f, after) }

// send sends a report now, as the newest of its worker.
func (i *incident) send(r fleet.Report) {
	i.env.SignalWorkflow(probeworkflow.ReportSignal, i.numbered(r))
}

// sendUnnoticed puts a report into the next task that something else brings
// about, as the server does when both come within moments.
func (i *incident) sendUnnoticed(r fleet.Report) {
	i.env.SignalWorkflowSkippingWorkflowTask(probeworkflow.ReportSignal, i.numbered(r))
}

func (i *incident) numbered(r fleet.Report) fleet.Report {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sequence++
	r.Sequence = i.sequence
	return r
}

// run starts the outage with a report that convicts at once.
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

// result is the report of an outage that completed.
func (i *incident) result() probeworkflow.OutageReport {
	i.t.Helper()
	require.NoError(i.t, i.env.GetWorkflowError())
	var report probeworkflow.OutageReport
	require.NoError(i.t, i.env.GetWorkflowResult(&report))
	return report
}

// carried is what an outage that continued as new hands to its next run.
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

// states are the published states in order, as "open" or "recovering 10%".
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

// ordered are the published verdicts by epoch: publishing keeps no order.
func (i *incident) ordered() []breaker.Verdict {
	return slices.SortedFunc(slices.Values(i.verdicts), func(a, b breaker.Verdict) int { return int(a.Epoch - b.Epoch) })
}

// of are the verdicts of one state.
func (i *incident) of(state breaker.State) []breaker.Verdict {
	return slices.DeleteFunc(i.ordered(), func(v breaker.Verdict) bool { return v.State != state })
}

// cooldowns are the times from each open verdict to its end.
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

// details is what the Temporal UI shows.
func (i *incident) details() string {
	i.t.Helper()
	value, err := i.env.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(i.t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(i.t, value.Get(&metadata))
	return metadata.GetCurrentDetails()
}

// down is the report of a worker whose breaker tripped.
func down(worker string) fleet.Report {
	return fleet.Report{Worker: worker, State: breaker.Closed, Evidence: breaker.Evidence{Window: breaker.Counts{Samples: 20, Failures: 20}}}
}

// healthy is the report of a worker that reaches the dependency.
func healthy(worker string) fleet.Report {
	return fleet.Report{Worker: worker, State: breaker.Closed, Evidence: breaker.Evidence{Window: breaker.Counts{Samples: 20}}}
}

// onRamp is a worker's report of the calls a ramp let pass, as of a verdict.
func onRamp(worker string, v breaker.Verdict, calls, failures int) fleet.Report {
	return fleet.Report{
		Worker: worker, State: breaker.Recovering, Epoch: v.Epoch,
		Evidence: breaker.Evidence{Window: breaker.Counts{Samples: calls, Failures: failures}, Ramp: calls},
	}
}

// busy reports more good calls at each step of a ramp, so that none is quiet.
func (i *incident) busy(_ int, v breaker.Verdict) {
	if v.State == breaker.Recovering {
		i.send(onRamp("worker-1", v, 20*(v.Step+1), 0))
	}
}

// about asserts a cooldown: a tenth to either side.
func about(t *testing.T, want, got time.Duration) {
	t.Helper()
	assert.InDelta(t, want.Seconds(), got.Seconds(), want.Seconds()/10)
}

// wholeStory are the states of an outage that ends at the first try.
var wholeStory = []string{"open", "half-open", "recovering 10%", "recovering 50%", "recovering 100%", "closed"}
