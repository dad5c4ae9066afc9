// Package processes_test runs fleets of real processes: the worker binary, several
// at once, and the Temporal server on a file, killed and stopped and started again
// in every phase of an outage. The carrier's own count is the witness of what
// reached it.
package processes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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
	// speed is that of the story; see tests/e2e.
	speed = 5
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
	dir, err := os.MkdirTemp("", "toolbreaker-processes-")
	if err == nil {
		const module = "github.com/toolbreaker/toolbreaker"
		for target, pkg := range map[*string]string{&workerCommand: module + "/worker", &temporalCommand: module + "/tests/internal/temporal"} {
			*target = filepath.Join(dir, filepath.Base(pkg))
			out, failed := exec.Command("go", "build", "-o", *target, pkg).CombinedOutput()
			if failed != nil {
				err = fmt.Errorf("building %s: %w\n%s", pkg, failed, out)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// house is a server, a carrier, and the fleet's processes.
type house struct {
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

func openHouse(t *testing.T, workers int) *house {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h := &house{t: t, port: listener.Addr().(*net.TCPAddr).Port, db: filepath.Join(t.TempDir(), "temporal.db")}
	require.NoError(t, listener.Close())
	h.carrier, err = carrier.Start(carrier.Options{Speed: speed, Seed: 1})
	require.NoError(t, err)
	t.Cleanup(h.carrier.Stop)
	h.startServer()
	t.Cleanup(h.stopServer)
	h.client, err = client.Dial(client.Options{HostPort: h.address(), Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	require.NoError(t, err)
	t.Cleanup(h.client.Close)
	for range workers {
		h.startWorker(h.carrier.URL())
	}
	return h
}

func (h *house) address() string { return fmt.Sprintf("127.0.0.1:%d", h.port) }

func (h *house) startServer() {
	h.t.Helper()
	h.server = exec.Command(temporalCommand, "-db", h.db, "-port", fmt.Sprint(h.port), "-timer-resolution", "200ms")
	h.server.Stderr = os.Stderr
	stdin, err := h.server.StdinPipe()
	require.NoError(h.t, err)
	h.stdin = stdin
	stdout, err := h.server.StdoutPipe()
	require.NoError(h.t, err)
	require.NoError(h.t, h.server.Start())
	_, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(h.t, err, "the server has started")
}

func (h *house) stopServer() {
	if h.server != nil {
		_ = h.stdin.Close()
		assert.NoError(h.t, h.server.Wait())
		h.server = nil
	}
}

// startWorker starts a process that calls the carrier at a URL, until the test
// ends.
func (h *house) startWorker(carrierURL string) *process {
	h.t.Helper()
	p := &process{done: make(chan struct{})}
	p.cmd = exec.Command(workerCommand, "run", "--json", "--carrier", carrierURL, "--speed", fmt.Sprint(speed))
	p.cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+h.address())
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(h.t, err)
	stderr, err := p.cmd.StderrPipe()
	require.NoError(h.t, err)
	require.NoError(h.t, p.cmd.Start())
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			var e edge
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				p.mu.Lock()
				p.edges = append(p.edges, e)
				p.mu.Unlock()
			}
		}
		_ = p.cmd.Wait()
	}()
	h.t.Cleanup(p.kill)
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(h.t, err)
	require.Contains(h.t, line, "The worker runs")
	h.mu.Lock()
	defer h.mu.Unlock()
	h.workers = append(h.workers, p)
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
func (h *house) alive() []*process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.workers), func(p *process) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.gone
	})
}

// until waits until every process that runs is in one of these states.
func (h *house) until(key breaker.Key, states ...breaker.State) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		return !slices.ContainsFunc(h.alive(), func(p *process) bool {
			s, _ := p.state(key)
			return !slices.Contains(states, s)
		})
	}, patience, 20*time.Millisecond, "%s is never %v", key, states)
}

// reached waits until some process has been in a state since a moment.
func (h *house) reached(key breaker.Key, state breaker.State, since time.Time) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		return slices.ContainsFunc(h.alive(), func(p *process) bool {
			_, edges := p.state(key)
			return slices.ContainsFunc(edges, func(e edge) bool { return e.To == state && !e.At.Before(since) })
		})
	}, patience, 20*time.Millisecond, "%s is never %v", key, state)
}

func (h *house) fault(region string, kind carrier.FaultKind) time.Time {
	h.t.Helper()
	now := time.Now()
	require.NoError(h.t, h.carrier.SetFault(region, carrier.Fault{Kind: kind}))
	return now
}

// customersWrite has tickets come until stop is called, which waits for the last
// answer. Every ticket is answered.
func (h *house) customersWrite(prefixes ...string) (stop func()) {
	quit := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		ticker := time.NewTicker(ticketEvery)
		defer ticker.Stop()
		for n := 0; ; n++ {
			all.Go(func() { h.ticket(prefixes[n%len(prefixes)]) })
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
	h.t.Cleanup(stop)
	return stop
}

// ticket has one answered, however often the server is away meanwhile.
func (h *house) ticket(prefix string) {
	h.mu.Lock()
	h.tickets++
	n := h.tickets
	h.mu.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	t := agent.Ticket{ID: fmt.Sprint(n), OrderID: fmt.Sprintf("%s-%04d", prefix, n), Question: "Where is my parcel?", Speed: speed}
	var outcome agent.Outcome
	err := errors.New("not asked")
	for err != nil && ctx.Err() == nil {
		var run client.WorkflowRun
		run, err = h.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: "ticket/" + t.ID, TaskQueue: app.TaskQueue, WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, agent.WorkflowType, t)
		if err != nil {
			run = h.client.GetWorkflow(ctx, "ticket/"+t.ID, "")
		}
		// The server may miss to tell of an end; who asks again is answered.
		poll, stop := context.WithTimeout(ctx, 3*time.Second)
		err = run.Get(poll, &outcome)
		stop()
	}
	if assert.NoError(h.t, err, "ticket %d is answered", n) {
		h.mu.Lock()
		h.outcomes, h.began = append(h.outcomes, outcome), append(h.began, began)
		h.mu.Unlock()
	}
}

// settled asserts what holds at the end of every scenario: all is well again,
// with so many outages, nobody called the dead carrier, and no workflow task has
// failed.
func (h *house) settled(key breaker.Key, outages int) {
	h.t.Helper()
	h.until(key, breaker.Closed)
	var runs []string
	require.Eventually(h.t, func() bool {
		runs = nil
		r, err := h.client.ListWorkflow(h.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
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
	assert.Len(h.t, runs, outages, "outages of %s", key)
	for _, run := range runs {
		h.noFailedTask(probeworkflow.OutageID(key), run)
	}
	h.noFailedTask(fleet.BoardID, "")
	h.noFailedTask(probeworkflow.ProbeID(key), "")
	assert.Empty(h.t, h.callsWhileAllOpen(key))
}

func (h *house) noFailedTask(workflowID, runID string) {
	h.t.Helper()
	events := h.client.GetWorkflowHistory(h.t.Context(), workflowID, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil && strings.Contains(err.Error(), "not found") {
			return
		}
		require.NoError(h.t, err)
		assert.NotEqual(h.t, enums.EVENT_TYPE_WORKFLOW_TASK_FAILED, event.GetEventType(), "%s: %v", workflowID, event.GetWorkflowTaskFailedEventAttributes().GetCause())
	}
}

// callsWhileAllOpen are customers' calls that reached the carrier although every
// process's breaker was open or half-open, and had been for the grace.
func (h *house) callsWhileAllOpen(key breaker.Key) []carrier.Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	blocked := func(at time.Time) bool {
		any := false
		for _, p := range h.workers {
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
	return slices.DeleteFunc(h.carrier.Calls(), func(c carrier.Call) bool {
		return c.Region != key.Region || c.Kind != carrier.Customer || !blocked(c.At)
	})
}
