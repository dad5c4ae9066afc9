package interceptor_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// bubbleClock is the system clock in a synctest bubble.
type bubbleClock struct{ begun time.Time }

func newBubbleClock() bubbleClock { return bubbleClock{begun: time.Now()} }

func (c bubbleClock) Now() time.Time         { return time.Now() }
func (c bubbleClock) Elapsed() time.Duration { return time.Since(c.begun) }

// server is a fake Temporal server with the calls that a sender makes.
type server struct {
	client.Client
	// slow is the duration of a call.
	slow time.Duration

	mu   sync.Mutex
	err  error
	sent []sent
	// pollers are the workers of each task queue, counted how often they were.
	pollers []string
	counted int
}

func (s *server) DescribeTaskQueue(_ context.Context, _ string, kind enums.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted++
	if kind != enums.TASK_QUEUE_TYPE_ACTIVITY {
		return nil, errors.New("not an activity task queue")
	}
	var r workflowservice.DescribeTaskQueueResponse
	for _, name := range s.pollers {
		r.Pollers = append(r.Pollers, &taskqueue.PollerInfo{Identity: name, LastAccessTime: timestamppb.Now()})
	}
	return &r, s.err
}

func (s *server) poll(workers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pollers = workers
}

// sent is one report to an outage workflow.
type sent struct {
	at       time.Time
	outage   string
	report   fleet.Report
	starting bool
	options  client.StartWorkflowOptions
	input    probeworkflow.OutageInput
	failed   bool
	ended    bool
}

func (s *server) SignalWithStartWorkflow(ctx context.Context, id, name string, arg any, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	if name != probeworkflow.ReportSignal || workflow != probeworkflow.OutageWorkflow {
		return nil, errors.New("not a report to an outage")
	}
	return nil, s.take(sent{
		outage: id, report: arg.(fleet.Report), starting: true, options: o, input: args[0].(probeworkflow.OutageInput), ended: ctx.Err() != nil,
	})
}

func (s *server) SignalWorkflow(ctx context.Context, id, runID, name string, arg any) error {
	if name != probeworkflow.ReportSignal || runID != "" {
		return errors.New("not a report to the current run of an outage")
	}
	return s.take(sent{outage: id, report: arg.(fleet.Report), ended: ctx.Err() != nil})
}

func (s *server) take(r sent) error {
	time.Sleep(s.slow)
	s.mu.Lock()
	defer s.mu.Unlock()
	r.at, r.failed = time.Now(), s.err != nil
	s.sent = append(s.sent, r)
	return s.err
}

func (s *server) reach(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *server) reports() []sent {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sent(nil), s.sent...)
}

// delivered returns the reports that arrived.
func (s *server) delivered() []sent {
	var arrived []sent
	for _, r := range s.reports() {
		if !r.failed {
			arrived = append(arrived, r)
		}
	}
	return arrived
}

// process is a started plugin in a bubble, without the watcher.
type process struct {
	*interceptor.Plugin
	*server
	stop func()
}

// inProcess calls f in a bubble with a process.
func inProcess(t *testing.T, config func(*interceptor.Config), f func(t *testing.T, p *process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := guarded(nil)
		c.Clock = newBubbleClock()
		config(&c)
		s := &server{}
		plugin, err := interceptor.NewPlugin(s, c)
		require.NoError(t, err)
		plugin.SetRandom(func() float64 { return 0 })
		p := &process{Plugin: plugin, server: s}
		var stops []func()
		for _, run := range []func(context.Context){plugin.RunBreakers, plugin.RunSender, plugin.RunQuarantine} {
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { defer close(done); run(ctx) }()
			stops = append(stops, func() { cancel(); <-done })
		}
		p.stop = sync.OnceFunc(func() {
			for _, stop := range stops {
				stop()
			}
		})
		defer p.stop()
		f(t, p)
	})
}

func unchanged(*interceptor.Config) {}

// call makes n calls of guarded's tool that end in this error.
func call(t *testing.T, p *interceptor.Plugin, n int, region string, end error) {
	t.Helper()
	env, _ := newWorker(p, tool, failsWith(end))
	for range n {
		_, _ = env.ExecuteActivity(tool, query{Region: region})
	}
}

// fail makes n failing calls. Ten trip guarded's breaker.
func fail(t *testing.T, p *interceptor.Plugin, n int) { t.Helper(); call(t, p, n, "", httpError(503)) }

func succeed(t *testing.T, p *interceptor.Plugin, n int) { t.Helper(); call(t, p, n, "", nil) }

// A healthy process sends nothing.
func TestSender_OfAHealthyProcessSendsNothing(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		for range 60 {
			succeed(t, p.Plugin, 5)
			fail(t, p.Plugin, 1)
			time.Sleep(time.Second)
		}
		assert.Empty(t, p.reports())
	})
}

func TestSender_StartsAnOutageWithATrip(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		time.Sleep(1234 * time.Millisecond)
		fail(t, p.Plugin, 10)
		tripped := time.Now()
		reports := p.reports()
		require.Len(t, reports, 1)
		r := reports[0]
		assert.Equal(t, tripped, r.at, "at once")
		assert.True(t, r.starting)
		assert.Equal(t, "outage/carrier-api/eu-west", r.outage)
		assert.Equal(t, "outage/carrier-api/eu-west", r.options.ID)
		assert.Equal(t, interceptor.DefaultTaskQueue, r.options.TaskQueue)
		settings, err := p.Settings(key)
		require.NoError(t, err)
		assert.Equal(t, probeworkflow.OutageInput{Settings: settings}, r.input)

		assert.NotEmpty(t, r.report.Worker)
		assert.Positive(t, r.report.Sequence)
		assert.Equal(t, "default-test-taskqueue", r.report.TaskQueue, "where its tools run")
		assert.Equal(t, breaker.Closed, r.report.State, "its state before the trip")
		assert.Zero(t, r.report.Epoch)
		assert.Equal(t, breaker.Counts{Samples: 10, Failures: 10}, r.report.Window)

		time.Sleep(20 * time.Second)
		assert.Len(t, p.reports(), 1, "once")
	})
}

func TestSender_ReportsTheRetryAfter(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		call(t, p.Plugin, 10, "", paced{503, 2 * time.Minute})
		reports := p.reports()
		require.Len(t, reports, 1)
		assert.Equal(t, 2*time.Minute, reports[0].report.HoldOff)
	})
}

func TestSender_ReportsEachKeyToItsOwnOutage(t *testing.T) {
	t.Parallel()
	inProcess(t, func(c *interceptor.Config) { *c = byRegion(*c) }, func(t *testing.T, p *process) {
		call(t, p.Plugin, 10, "us-east", httpError(503))
		call(t, p.Plugin, 10, "eu-west", httpError(503))
		reports := p.reports()
		require.Len(t, reports, 2)
		outages := map[string]breaker.Key{}
		for _, r := range reports {
			outages[r.outage] = r.input.Settings.Key
		}
		assert.Equal(t, map[string]breaker.Key{
			"outage/carrier-api/eu-west": {Dependency: "carrier-api", Region: "eu-west"},
			"outage/carrier-api/us-east": {Dependency: "carrier-api", Region: "us-east"},
		}, outages)
	})
}

// A verdict of the fleet is not reported back to it.
func TestSender_DoesNotReportAVerdict(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		open(p.Plugin)
		time.Sleep(10 * time.Second)
		assert.Empty(t, p.reports())
	})
}

// As long as this process refuses calls by its own trip, the fleet must learn of it.
func TestSender_RepeatsATripThatDidNotArrive(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		p.reach(errors.New("connection refused"))
		fail(t, p.Plugin, 10)
		time.Sleep(5500 * time.Millisecond)
		assert.Empty(t, p.delivered())
		assert.Len(t, p.reports(), 1+5, "at once, and every second")
		p.reach(nil)
		time.Sleep(10 * time.Second)
		delivered := p.delivered()
		require.Len(t, delivered, 1)
		assert.Equal(t, breaker.Counts{Samples: 10, Failures: 10}, delivered[0].report.Window)
		sequences := map[int64]bool{}
		for _, r := range p.reports() {
			sequences[r.report.Sequence] = true
		}
		assert.Len(t, sequences, len(p.reports()), "each attempt has its own sequence")
	})
}

// Admission uses only local state. Time in a bubble passes only while all goroutines wait, so
// any wait would show.
func TestSender_NoCallWaitsWhileTemporalHangs(t *testing.T) {
	t.Parallel()
	inProcess(t, func(c *interceptor.Config) { *c = byRegion(*c) }, func(t *testing.T, p *process) {
		p.slow = time.Hour
		call(t, p.Plugin, 10, "us-east", httpError(503))
		synctest.Wait()
		began := time.Now()
		for range 5 {
			call(t, p.Plugin, 20, "us-east", nil)
			call(t, p.Plugin, 1, "eu-west", nil)
		}
		call(t, p.Plugin, 6, "eu-west", httpError(503))
		call(t, p.Plugin, 100, "eu-west", nil)
		assert.Equal(t, began, time.Now())
		assert.Empty(t, p.reports(), "the first report still hangs")
		assert.EqualValues(t, 100, breakerOf(t, p.Plugin, breaker.Key{Dependency: "carrier-api", Region: "us-east"}).Refused)
		assert.EqualValues(t, 100, breakerOf(t, p.Plugin, key).Refused)
	})
}

// A trip during the sending of a report is reported too.
func TestSender_ReportsATripDuringAReport(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		p.slow = time.Second
		fail(t, p.Plugin, 10)
		synctest.Wait()
		p.Apply(fleet.Table{Entries: []fleet.Entry{{Key: key, Verdict: breaker.Verdict{State: breaker.Closed, Epoch: 7}}}})
		fail(t, p.Plugin, 10)
		time.Sleep(5 * time.Second)
		reports := p.reports()
		require.Len(t, reports, 2)
		assert.Equal(t, int64(0), reports[0].report.Epoch)
		assert.Equal(t, int64(7), reports[1].report.Epoch)
	})
}

// After the breaker has moved on, its report would open an outage of a healthy dependency.
func TestSender_DropsATripThatIsOver(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		p.reach(errors.New("connection refused"))
		fail(t, p.Plugin, 10)
		time.Sleep(time.Hour)
		require.Equal(t, breaker.Closed, breakerOf(t, p.Plugin, key).State)
		p.reach(nil)
		time.Sleep(time.Minute)
		assert.Empty(t, p.delivered())
	})
}

// The last trips of a worker that stops are sent with a context that is not cancelled.
func TestSender_SendsTheRestWhenItStops(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		p.reach(errors.New("connection refused"))
		fail(t, p.Plugin, 10)
		require.NotEmpty(t, p.reports())
		p.reach(nil)
		p.stop()
		delivered := p.delivered()
		require.Len(t, delivered, 1)
		assert.False(t, delivered[0].ended)
	})
}

// recovering puts guarded's breaker onto the ramp by a verdict.
func recovering(p *interceptor.Plugin, epoch int64, step int, outage string) {
	p.Apply(fleet.Table{Entries: []fleet.Entry{{Key: key, Verdict: breaker.Verdict{
		State: breaker.Recovering, Epoch: epoch, Share: 100, Step: step, Next: time.Now().Add(15 * time.Second), Outage: outage,
	}}}})
}

// A step is evaluated by its own calls. The first is reported at once, then each time the
// minimum of calls has ended again.
func TestSender_ReportsTheCallsOfTheRamp(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		recovering(p.Plugin, 7, 0, "outage/carrier-api/eu-west")
		time.Sleep(1500 * time.Millisecond)
		assert.Empty(t, p.reports(), "nothing to report yet")
		reported := func(n int) fleet.Report {
			t.Helper()
			time.Sleep(time.Second)
			reports := p.reports()
			require.Len(t, reports, n)
			assert.False(t, reports[n-1].starting, "an outage that has ended is not started again")
			assert.Equal(t, "outage/carrier-api/eu-west", reports[n-1].outage)
			return reports[n-1].report
		}
		succeed(t, p.Plugin, 1)
		first := reported(1)
		assert.Equal(t, breaker.Recovering, first.State)
		assert.Equal(t, int64(7), first.Epoch)
		assert.Equal(t, 1, first.Ramp)
		assert.Equal(t, breaker.Counts{Samples: 1}, first.Window)
		succeed(t, p.Plugin, 4)
		reported(1)
		succeed(t, p.Plugin, 1)
		second := reported(2)
		assert.Equal(t, 6, second.Ramp, "all since the ramp began")
		assert.Greater(t, second.Sequence, first.Sequence)
		assert.Equal(t, first.Worker, second.Worker)
		// The next step waits for its first call, so that is reported at once.
		recovering(p.Plugin, 8, 1, "outage/carrier-api/eu-west")
		reported(2)
		succeed(t, p.Plugin, 1)
		third := reported(3)
		assert.Equal(t, int64(8), third.Epoch)
		assert.Equal(t, 7, third.Ramp)
	})
}

func TestSender_RepeatsARampReportThatDidNotArrive(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		recovering(p.Plugin, 7, 0, "outage/carrier-api/eu-west")
		p.reach(errors.New("connection refused"))
		succeed(t, p.Plugin, 1)
		time.Sleep(2500 * time.Millisecond)
		assert.Len(t, p.reports(), 2)
		p.reach(nil)
		time.Sleep(3 * time.Second)
		assert.Len(t, p.delivered(), 1)
	})
}

// A trip on the ramp is reported with the epoch of its verdict.
func TestSender_ReportsATripOnTheRamp(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		recovering(p.Plugin, 7, 0, "outage/carrier-api/eu-west")
		fail(t, p.Plugin, 5)
		reports := p.reports()
		require.NotEmpty(t, reports)
		last := reports[len(reports)-1]
		assert.Equal(t, breaker.Recovering, last.report.State)
		assert.Equal(t, int64(7), last.report.Epoch)
		assert.Equal(t, breaker.Counts{Samples: 5, Failures: 5}, last.report.Window)
	})
}

// A breaker without an outage workflow has nothing to report to.
func TestSender_DoesNotReportALocalRamp(t *testing.T) {
	t.Parallel()
	inProcess(t, unchanged, func(t *testing.T, p *process) {
		recovering(p.Plugin, 7, 0, "")
		succeed(t, p.Plugin, 20)
		time.Sleep(5 * time.Second)
		assert.Empty(t, p.reports())
	})
}

// A process may have several plugins.
func TestSender_EachPluginHasItsOwnName(t *testing.T) {
	t.Parallel()
	var names []string
	for range 2 {
		inProcess(t, unchanged, func(t *testing.T, p *process) {
			fail(t, p.Plugin, 10)
			names = append(names, p.reports()[0].report.Worker)
		})
	}
	assert.NotEqual(t, names[0], names[1])
}
