// Package processes_test tests fleets of processes: several workers, built with the race
// detector, and a Temporal server whose state is in a file. Workers and server are killed
// or restarted in each phase of an outage. The carrier records the calls that reach it.
package processes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/worker/agent"
	"github.com/toolbreaker/toolbreaker/worker/app"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

const (
	// speed divides the durations of the example. A healthy call takes half a second.
	speed = 4
	// latency is the latency threshold before it is divided by speed. A healthy call that
	// waits two seconds for a processor stays under it.
	latency = 12 * time.Second
	// parallelTests is the default of -parallel. With more tests on two cores, verdicts
	// would take longer than a worker waits for them.
	parallelTests = "2"
	// waitTimeout limits a wait. Waits that succeed are much shorter.
	waitTimeout = 2 * time.Minute
	// ticketInterval is the time between two tickets.
	ticketInterval = 400 * time.Millisecond
	// arrivalGrace is how long after an opening a call may still arrive that was allowed
	// before.
	arrivalGrace = 500 * time.Millisecond
)

var euWest = breaker.Key{Dependency: carriertools.Dependency, Region: carriertools.RegionEUWest}

var usEast = breaker.Key{Dependency: carriertools.Dependency, Region: carriertools.RegionUSEast}

// The paths of the binaries that TestMain builds.
var workerCommand, temporalCommand string

func TestMain(m *testing.M) {
	flag.Parse()
	parallel := false
	flag.Visit(func(f *flag.Flag) { parallel = parallel || f.Name == "test.parallel" })
	if !parallel {
		_ = flag.Set("test.parallel", parallelTests) // a number, so it cannot fail
	}
	dir, err := os.MkdirTemp("", "toolbreaker-processes-")
	if err == nil {
		const module = "github.com/toolbreaker/toolbreaker"
		workerCommand, temporalCommand = filepath.Join(dir, "worker"), filepath.Join(dir, "temporal")
		err = errors.Join(
			build("-race", "-tags", "noserver", "-o", workerCommand, module+"/worker"),
			build("-o", temporalCommand, module+"/tests/internal/temporal"),
		)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func build(args ...string) error {
	out, err := exec.Command("go", append([]string{"build"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// cluster is a server, a carrier and worker processes.
type cluster struct {
	t       *testing.T
	port    int
	db      string
	server  *exec.Cmd
	stdin   io.Closer
	carrier *carrier.Server
	client  client.Client

	mu      sync.Mutex
	workers []*process
	tickets int
	// outcomes are the outcomes of the tickets that have ended.
	outcomes []agent.Outcome
}

// process is one worker process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu          sync.Mutex
	transitions []transition
	exited      bool
}

// transition is a line of the output of `worker run --json`.
type transition struct {
	At    time.Time     `json:"at"`
	Key   breaker.Key   `json:"key"`
	To    breaker.State `json:"to"`
	Local bool          `json:"local"`
}

func newCluster(t *testing.T, workers int) *cluster {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cluster{t: t, port: listener.Addr().(*net.TCPAddr).Port, db: filepath.Join(t.TempDir(), "temporal.db")}
	require.NoError(t, listener.Close())
	c.carrier, err = carrier.Start(carrier.Options{Speed: speed, Seed: 1})
	require.NoError(t, err)
	t.Cleanup(c.carrier.Stop)
	c.startServer()
	t.Cleanup(c.stopServer)
	c.client, err = client.Dial(client.Options{HostPort: c.address(), Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	t.Cleanup(c.client.Close)
	for range workers {
		c.startWorker(c.carrier.URL())
	}
	return c
}

func (c *cluster) address() string { return fmt.Sprintf("127.0.0.1:%d", c.port) }

func (c *cluster) startServer() {
	c.t.Helper()
	c.server = exec.Command(temporalCommand, "-db", c.db, "-port", fmt.Sprint(c.port), "-timer-resolution", "200ms")
	c.server.Stderr = os.Stderr
	stdin, err := c.server.StdinPipe()
	require.NoError(c.t, err)
	c.stdin = stdin
	stdout, err := c.server.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, c.server.Start())
	_, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(c.t, err, "the server prints its address")
}

func (c *cluster) stopServer() {
	if c.server != nil {
		_ = c.stdin.Close()
		assert.NoError(c.t, c.server.Wait())
		c.server = nil
	}
}

// startWorker starts a worker that calls the carrier at a URL. It is killed when the test
// ends.
func (c *cluster) startWorker(carrierURL string) *process {
	c.t.Helper()
	p := &process{done: make(chan struct{})}
	p.cmd = exec.Command(workerCommand, "run", "--json", "--carrier", carrierURL, "--speed", fmt.Sprint(speed), "--latency", latency.String())
	p.cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+c.address())
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(c.t, err)
	stderr, err := p.cmd.StderrPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, p.cmd.Start())
	c.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	stderrLines := bufio.NewReader(stderr)
	started, err := stderrLines.ReadString('\n')
	require.NoError(c.t, err)
	require.Contains(c.t, started, "The worker runs")
	var output sync.WaitGroup
	output.Go(func() {
		text, _ := io.ReadAll(stderrLines) // ends with the process
		assert.Empty(c.t, string(text), "standard error of a worker: race reports, panics")
	})
	output.Go(func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			var e transition
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				p.mu.Lock()
				p.transitions = append(p.transitions, e)
				p.mu.Unlock()
			}
		}
	})
	go func() {
		defer close(p.done)
		output.Wait()
		_ = p.cmd.Wait()
	}()
	c.t.Cleanup(p.kill)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = append(c.workers, p)
	return p
}

// kill ends the process without a shutdown.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Kill()
	p.awaitExit()
}

// stop shuts the process down, as a deployment does.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.awaitExit()
}

func (p *process) awaitExit() {
	<-p.done
	p.mu.Lock()
	p.exited = true
	p.mu.Unlock()
}

// state returns the state of a process's breaker, and its transitions so far.
func (p *process) state(key breaker.Key) (breaker.State, []transition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	state := breaker.Closed
	var transitions []transition
	for _, e := range p.transitions {
		if e.Key == key {
			state = e.To
			transitions = append(transitions, e)
		}
	}
	return state, transitions
}

// running returns the processes that have not exited.
func (c *cluster) running() []*process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.workers), func(p *process) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.exited
	})
}

// awaitAll waits until the breaker of every running process is in one of these states.
func (c *cluster) awaitAll(key breaker.Key, states ...breaker.State) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		return !slices.ContainsFunc(c.running(), func(p *process) bool {
			s, _ := p.state(key)
			return !slices.Contains(states, s)
		})
	}, waitTimeout, 20*time.Millisecond, "%s is never %v", key, states)
}

// awaitAny waits until a running process has had a transition to a state at since or later.
func (c *cluster) awaitAny(key breaker.Key, state breaker.State, since time.Time) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		return slices.ContainsFunc(c.running(), func(p *process) bool {
			_, transitions := p.state(key)
			return slices.ContainsFunc(transitions, func(e transition) bool { return e.To == state && !e.At.Before(since) })
		})
	}, waitTimeout, 20*time.Millisecond, "%s is never %v", key, state)
}

func (c *cluster) setFault(region string, kind carrier.FaultKind) time.Time {
	c.t.Helper()
	now := time.Now()
	require.NoError(c.t, c.carrier.SetFault(region, carrier.Fault{Kind: kind}))
	return now
}

// startCustomers starts a ticket per interval until stop is called. stop waits until every
// ticket is answered.
func (c *cluster) startCustomers(prefixes ...string) (stop func()) {
	quit := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		ticker := time.NewTicker(ticketInterval)
		defer ticker.Stop()
		for n := 0; ; n++ {
			all.Go(func() { c.runTicket(prefixes[n%len(prefixes)]) })
			select {
			case <-quit:
				return
			case <-ticker.C:
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(quit)
		all.Wait()
	})
	c.t.Cleanup(stop)
	return stop
}

// runTicket runs the agent for one ticket. It continues over restarts of the server.
func (c *cluster) runTicket(prefix string) {
	c.mu.Lock()
	c.tickets++
	n := c.tickets
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	t := agent.Ticket{ID: fmt.Sprint(n), OrderID: fmt.Sprintf("%s-%04d", prefix, n), Question: "Where is my parcel?", Speed: speed}
	var outcome agent.Outcome
	err := errors.New("not started")
	for err != nil && ctx.Err() == nil {
		var run client.WorkflowRun
		run, err = c.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: "ticket/" + t.ID, TaskQueue: app.TaskQueue, WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, agent.WorkflowType, t)
		if err != nil {
			run = c.client.GetWorkflow(ctx, "ticket/"+t.ID, "")
		}
		// The server can fail to notify a waiting request, so the result is requested again.
		poll, stop := context.WithTimeout(ctx, 3*time.Second)
		err = run.Get(poll, &outcome)
		stop()
	}
	if assert.NoError(c.t, err, "ticket %d is answered", n) {
		c.mu.Lock()
		c.outcomes = append(c.outcomes, outcome)
		c.mu.Unlock()
	}
}

// assertRecovered checks the end of a test: all breakers are closed, there was this number
// of outages, no call reached the carrier while all breakers were open, and no workflow
// task failed.
func (c *cluster) assertRecovered(key breaker.Key, outages int) {
	c.t.Helper()
	c.awaitAll(key, breaker.Closed)
	var runs []string
	require.Eventually(c.t, func() bool {
		runs = nil
		r, err := c.client.ListWorkflow(c.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: fmt.Sprintf("WorkflowId = %q", probeworkflow.OutageID(key)),
		})
		if err != nil {
			return false
		}
		for _, e := range r.GetExecutions() {
			if e.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
				return false
			}
			runs = append(runs, e.GetExecution().GetRunId())
		}
		return len(runs) >= outages
	}, waitTimeout, 200*time.Millisecond)
	assert.Len(c.t, runs, outages, "outages of %s", key)
	for _, run := range runs {
		c.assertNoFailedTask(probeworkflow.OutageID(key), run)
	}
	c.assertNoFailedTask(fleet.BoardID, "")
	c.assertNoFailedTask(probeworkflow.ProbeID(key), "")
	assert.Empty(c.t, c.callsWhileAllOpen(key))
}

func (c *cluster) assertNoFailedTask(workflowID, runID string) {
	c.t.Helper()
	events := c.client.GetWorkflowHistory(c.t.Context(), workflowID, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil && strings.Contains(err.Error(), "not found") {
			return
		}
		require.NoError(c.t, err)
		assert.NotEqual(c.t, enums.EVENT_TYPE_WORKFLOW_TASK_FAILED, event.GetEventType(), "%s: %v", workflowID, event.GetWorkflowTaskFailedEventAttributes().GetCause())
	}
}

// callsWhileAllOpen returns customers' calls that reached the carrier more than
// arrivalGrace after the breakers of all processes began to refuse calls.
func (c *cluster) callsWhileAllOpen(key breaker.Key) []carrier.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	blocked := func(at time.Time) bool {
		any := false
		for _, p := range c.workers {
			_, transitions := p.state(key)
			state, since := breaker.Closed, time.Time{}
			for _, e := range transitions {
				if e.At.After(at) {
					break
				}
				if (e.To == breaker.Open || e.To == breaker.HalfOpen) && state != breaker.Open && state != breaker.HalfOpen {
					since = e.At
				}
				state = e.To
			}
			if len(transitions) == 0 {
				// The process received no verdict, or made no calls.
				continue
			}
			if state != breaker.Open && state != breaker.HalfOpen || at.Sub(since) < arrivalGrace {
				return false
			}
			any = true
		}
		return any
	}
	return slices.DeleteFunc(c.carrier.Calls(), func(call carrier.Call) bool {
		return call.Region != key.Region || call.Kind != carrier.Customer || !blocked(call.At)
	})
}
