// Package processes_test runs fleets of real processes: several workers, built with
// the race detector, and a Temporal server whose state is in a file. They are killed,
// stopped and started again in every phase of an outage. The carrier counts what
// reached it.
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
	// Durations of the example are divided by speed. A healthy call takes half a second.
	speed = 4
	// latency is the latency threshold, divided by speed as well. A call that waits two
	// seconds for a processor does not pass it.
	latency = 12 * time.Second
	// testsAtOnce is how many tests run side by side, unless -parallel is set. More of
	// them would need the two cores for longer than a worker waits for the fleet.
	testsAtOnce = "2"
	// patience ends a wait for what should have happened long ago.
	patience = 2 * time.Minute
	// ticketEvery is how often a customer writes.
	ticketEvery = 400 * time.Millisecond
	// grace is how long after an opening a call may still arrive that was let pass
	// before.
	grace = 500 * time.Millisecond
)

var euWest = breaker.Key{Dependency: carriertools.Dependency, Region: carriertools.RegionEUWest}

var usEast = breaker.Key{Dependency: carriertools.Dependency, Region: carriertools.RegionUSEast}

// What TestMain has built.
var workerCommand, temporalCommand string

func TestMain(m *testing.M) {
	flag.Parse()
	parallel := false
	flag.Visit(func(f *flag.Flag) { parallel = parallel || f.Name == "test.parallel" })
	if !parallel {
		_ = flag.Set("test.parallel", testsAtOnce) // a number, so it cannot fail
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

// cluster is a server, a carrier, and the fleet's processes.
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
	// outcomes are those of the tickets that have ended.
	outcomes []agent.Outcome
	began    []time.Time
}

// process is one worker.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	edges []edge
	gone  bool
}

// edge is a transition as `worker run --json` prints it.
type edge struct {
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
	require.NoError(c.t, err, "the server has started")
}

func (c *cluster) stopServer() {
	if c.server != nil {
		_ = c.stdin.Close()
		assert.NoError(c.t, c.server.Wait())
		c.server = nil
	}
}

// startWorker starts a process that calls the carrier at a URL, until the test
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
			var e edge
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				p.mu.Lock()
				p.edges = append(p.edges, e)
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

// kill ends a process as a machine's failure does.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	_ = p.cmd.Process.Kill()
	p.leave()
}

// stop ends it as a deployment does.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.leave()
}

func (p *process) leave() {
	<-p.done
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
}

// state is where a process's breaker stands, and the edges that led there.
func (p *process) state(key breaker.Key) (breaker.State, []edge) {
	p.mu.Lock()
	defer p.mu.Unlock()
	state := breaker.Closed
	var of []edge
	for _, e := range p.edges {
		if e.Key == key {
			state = e.To
			of = append(of, e)
		}
	}
	return state, of
}

// alive are the processes that run.
func (c *cluster) alive() []*process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.workers), func(p *process) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.gone
	})
}

// until waits until every process that runs is in one of these states.
func (c *cluster) until(key breaker.Key, states ...breaker.State) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		return !slices.ContainsFunc(c.alive(), func(p *process) bool {
			s, _ := p.state(key)
			return !slices.Contains(states, s)
		})
	}, patience, 20*time.Millisecond, "%s is never %v", key, states)
}

// reached waits until some process has been in a state since a moment.
func (c *cluster) reached(key breaker.Key, state breaker.State, since time.Time) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		return slices.ContainsFunc(c.alive(), func(p *process) bool {
			_, edges := p.state(key)
			return slices.ContainsFunc(edges, func(e edge) bool { return e.To == state && !e.At.Before(since) })
		})
	}, patience, 20*time.Millisecond, "%s is never %v", key, state)
}

func (c *cluster) fault(region string, kind carrier.FaultKind) time.Time {
	c.t.Helper()
	now := time.Now()
	require.NoError(c.t, c.carrier.SetFault(region, carrier.Fault{Kind: kind}))
	return now
}

// customersWrite has tickets come until stop is called, which waits for the last
// answer. Every ticket is answered.
func (c *cluster) customersWrite(prefixes ...string) (stop func()) {
	quit := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		ticker := time.NewTicker(ticketEvery)
		defer ticker.Stop()
		for n := 0; ; n++ {
			all.Go(func() { c.ticket(prefixes[n%len(prefixes)]) })
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

// ticket has one answered, however often the server is away meanwhile.
func (c *cluster) ticket(prefix string) {
	c.mu.Lock()
	c.tickets++
	n := c.tickets
	c.mu.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t := agent.Ticket{ID: fmt.Sprint(n), OrderID: fmt.Sprintf("%s-%04d", prefix, n), Question: "Where is my parcel?", Speed: speed}
	var outcome agent.Outcome
	err := errors.New("not asked")
	for err != nil && ctx.Err() == nil {
		var run client.WorkflowRun
		run, err = c.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: "ticket/" + t.ID, TaskQueue: app.TaskQueue, WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, agent.WorkflowType, t)
		if err != nil {
			run = c.client.GetWorkflow(ctx, "ticket/"+t.ID, "")
		}
		// The server may miss to tell of an end; who asks again is answered.
		poll, stop := context.WithTimeout(ctx, 3*time.Second)
		err = run.Get(poll, &outcome)
		stop()
	}
	if assert.NoError(c.t, err, "ticket %d is answered", n) {
		c.mu.Lock()
		c.outcomes, c.began = append(c.outcomes, outcome), append(c.began, began)
		c.mu.Unlock()
	}
}

// settled asserts what holds at the end of every scenario: all is well again,
// with so many outages, nobody called the dead carrier, and no workflow task has
// failed.
func (c *cluster) settled(key breaker.Key, outages int) {
	c.t.Helper()
	c.until(key, breaker.Closed)
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
	}, patience, 200*time.Millisecond)
	assert.Len(c.t, runs, outages, "outages of %s", key)
	for _, run := range runs {
		c.noFailedTask(probeworkflow.OutageID(key), run)
	}
	c.noFailedTask(fleet.BoardID, "")
	c.noFailedTask(probeworkflow.ProbeID(key), "")
	assert.Empty(c.t, c.callsWhileAllOpen(key))
}

func (c *cluster) noFailedTask(workflowID, runID string) {
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

// callsWhileAllOpen are customers' calls that reached the carrier although every
// process's breaker was open or half-open, and had been for the grace.
func (c *cluster) callsWhileAllOpen(key breaker.Key) []carrier.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	blocked := func(at time.Time) bool {
		any := false
		for _, p := range c.workers {
			_, edges := p.state(key)
			state, since := breaker.Closed, time.Time{}
			for _, e := range edges {
				if e.At.After(at) {
					break
				}
				if (e.To == breaker.Open || e.To == breaker.HalfOpen) && state != breaker.Open && state != breaker.HalfOpen {
					since = e.At
				}
				state = e.To
			}
			if len(edges) == 0 {
				// It was never told, or calls nobody.
				continue
			}
			if state != breaker.Open && state != breaker.HalfOpen || at.Sub(since) < grace {
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
