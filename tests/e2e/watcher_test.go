package e2e_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/fleet/member"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// A watcher receives a change that happened while it was disconnected, without another
// change.
func TestWatcherReceivesChangesAfterReconnect(t *testing.T) {
	t.Parallel()
	b := newBoard(t, client.Options{})
	p := newProxy(t, b.address)
	disconnected, connected := b.watch(b.dial(p.address)), b.watch(b.client)
	b.publish(1)
	b.awaitWatching(disconnected.await(1))

	p.disconnect()
	b.publish(2)
	connected.await(2)
	assert.Less(t, disconnected.last(), int64(2))
	p.reconnect()
	disconnected.await(2)
}

// The first table of a restarted watcher comes from the board's memo.
func TestRestartedWatcherStartsWithTheCurrentTable(t *testing.T) {
	t.Parallel()
	b := newBoard(t, client.Options{})
	first, other := b.watch(b.client), b.watch(b.client)
	b.publish(1)
	b.awaitWatching(first.await(1))

	first.stop()
	b.publish(2)
	other.await(2)
	restarted := b.watch(b.client)
	assert.Equal(t, int64(2), restarted.last(), "known after Bootstrap")
	b.publish(3)
	restarted.await(3)
}

func TestWatcherContinuesAfterAServerRestart(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "temporal.db")
	address, stop := startOwnServer(t, "-db", db)
	p := newProxy(t, address)
	b := newBoardOn(t, p.address, client.Options{Namespace: client.DefaultNamespace})
	w := b.watch(b.client)
	b.publish(1)
	before := w.await(1)
	b.awaitWatching(before)

	stop()
	p.disconnect()
	address, _ = startOwnServer(t, "-db", db)
	p.setServer(address)
	p.reconnect()
	b.publish(2)
	assert.Greater(t, w.await(2).Version, before.Version)
}

// The board continues as new after a few changes. Every watcher still receives each
// change.
func TestWatchersReceiveEachChangeWhenTheBoardContinuesAsNew(t *testing.T) {
	t.Parallel()
	const watchers, changes = 20, 40
	b := newBoardWithServer(t, "-set", "limit.historyCount.suggestContinueAsNew=60")
	var all []*watcher
	for range watchers {
		all = append(all, b.watch(b.client))
	}
	runs := map[string]bool{}
	for epoch := int64(1); epoch <= changes; epoch++ {
		b.publish(epoch)
		for _, w := range all {
			w.await(epoch)
		}
		runs[b.run()] = true
	}
	assert.Greater(t, len(runs), 3, "the board continues as new several times")
	for _, w := range all {
		tables := w.all()
		for i := 1; i < len(tables); i++ {
			assert.Greater(t, tables[i].Version, tables[i-1].Version)
			assert.LessOrEqual(t, epochOf(tables[i])-epochOf(tables[i-1]), int64(1), "no change is missed")
		}
	}

	// These changes are too fast to be received one by one. The last one must arrive.
	for epoch := int64(changes + 1); epoch <= 2*changes; epoch++ {
		b.publish(epoch)
	}
	for _, w := range all {
		w.await(2 * changes)
	}
}

// A watcher starts the board again after an operator has terminated or deleted it, or a
// failover of the namespace has lost it.
func TestWatchersFollowARestartedBoard(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*boardHarness){
		"terminated": func(b *boardHarness) {
			require.NoError(b.t, b.client.TerminateWorkflow(b.t.Context(), fleet.BoardID, "", "a test"))
		},
		"deleted": func(b *boardHarness) {
			_, err := b.client.WorkflowService().DeleteWorkflowExecution(b.t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
				Namespace: b.options.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: fleet.BoardID},
			})
			require.NoError(b.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t, client.Options{})
			one, other := b.watch(b.client), b.watch(b.client)
			b.publish(1)
			before := one.await(1)
			other.await(1)
			b.awaitWatching(before)
			run := b.run()

			end(b)
			require.Eventually(t, func() bool { return b.run() != run && b.running() }, waitTimeout, 50*time.Millisecond,
				"a watcher starts the board again")
			b.publish(2)
			for _, w := range []*watcher{one, other} {
				assert.Greater(t, w.await(2).Version, before.Version)
			}
		})
	}
}

// A frontend limits the number of long-running requests. The SDK retries the others for up
// to a minute without an error. Watchers must not wait for that.
func TestWatchersBeyondTheServersLimitReceiveEachChange(t *testing.T) {
	t.Parallel()
	const limit, watchers = 5, 25
	b := newBoardWithServer(t, "-set", fmt.Sprint("frontend.namespaceCount=", limit))
	var all []*watcher
	for range watchers {
		all = append(all, b.watch(b.client))
	}
	for epoch := int64(1); epoch <= 3; epoch++ {
		b.publish(epoch)
		for _, w := range all {
			w.awaitFor(epoch, 30*time.Second)
		}
	}
}

func TestWatcherWithEncryptedPayloads(t *testing.T) {
	t.Parallel()
	codec := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), newEncryptionCodec(t))
	b := newBoard(t, client.Options{DataConverter: codec})
	first := b.watch(b.client)
	b.publish(1)
	received := first.await(1)
	require.Len(t, received.Entries, 1)
	assert.Equal(t, boardKey, received.Entries[0].Key)
	assert.Equal(t, breaker.Open, received.Entries[0].Verdict.State)

	late := b.watch(b.client)
	assert.Equal(t, received, late.all()[0], "the memo has the same table as the update")
	b.publish(2)
	late.await(2)

	desc, err := b.client.DescribeWorkflowExecution(t.Context(), fleet.BoardID, "")
	require.NoError(t, err)
	assertEncrypted(t, desc.GetWorkflowExecutionInfo().GetMemo().GetFields()[fleet.TableMemo])
}

var boardKey = breaker.Key{Dependency: "carrier-api", Region: region}

const controlQueue = "toolbreaker"

// boardHarness is a namespace with a control worker, which runs the board.
type boardHarness struct {
	t       *testing.T
	address string
	options client.Options
	client  client.Client
}

func newBoard(t *testing.T, o client.Options) *boardHarness {
	t.Helper()
	o.Namespace = newNamespace(t)
	return newBoardOn(t, sharedServer, o)
}

// newBoardWithServer starts a server with these arguments for the board.
func newBoardWithServer(t *testing.T, args ...string) *boardHarness {
	t.Helper()
	address, _ := startOwnServer(t, args...)
	return newBoardOn(t, address, client.Options{Namespace: client.DefaultNamespace})
}

func newBoardOn(t *testing.T, address string, o client.Options) *boardHarness {
	t.Helper()
	o.Logger = log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	b := &boardHarness{t: t, address: address, options: o}
	b.client = b.dial(address)
	control := worker.New(b.client, controlQueue, worker.Options{})
	probeworkflow.Register(control, b.client, controlQueue, func(breaker.Key) (probeworkflow.Settings, error) { return probeworkflow.Settings{}, nil })
	require.NoError(t, control.Start())
	t.Cleanup(control.Stop)
	return b
}

func (b *boardHarness) dial(address string) client.Client {
	b.t.Helper()
	o := b.options
	o.HostPort, o.ConnectionOptions = address, uncompressed
	c, err := client.Dial(o)
	require.NoError(b.t, err)
	b.t.Cleanup(c.Close)
	return c
}

// publish signals a verdict to the board, as an outage workflow does.
func (b *boardHarness) publish(epoch int64) {
	b.t.Helper()
	_, err := b.client.SignalWithStartWorkflow(b.t.Context(), fleet.BoardID, fleet.VerdictSignal,
		fleet.Entry{Key: boardKey, Verdict: breaker.Verdict{State: breaker.Open, Epoch: epoch}},
		member.BoardOptions(controlQueue), fleet.BoardWorkflow, fleet.BoardInput{})
	require.NoError(b.t, err)
}

// awaitWatching waits until the board has accepted a watch update for this table's
// version.
func (b *boardHarness) awaitWatching(table fleet.Table) {
	b.t.Helper()
	id := fmt.Sprintf("%s-%d", fleet.WatchUpdate, table.Version)
	require.Eventually(b.t, func() bool {
		events := b.client.GetWorkflowHistory(b.t.Context(), fleet.BoardID, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			require.NoError(b.t, err)
			if event.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetProtocolInstanceId() == id {
				return true
			}
		}
		return false
	}, waitTimeout, 20*time.Millisecond, "no watcher waits with %s", id)
}

// run returns the board's current run ID, or "" without a board.
func (b *boardHarness) run() string {
	desc, err := b.client.DescribeWorkflowExecution(b.t.Context(), fleet.BoardID, "")
	if err != nil {
		return ""
	}
	return desc.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

func (b *boardHarness) running() bool {
	desc, err := b.client.DescribeWorkflowExecution(b.t.Context(), fleet.BoardID, "")
	return err == nil && desc.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING
}

// watcher is a running watcher and the tables that it has applied.
type watcher struct {
	t    *testing.T
	stop func()

	mu     sync.Mutex
	tables []fleet.Table
	next   chan struct{} // closed and replaced with each table
}

// watch starts a watcher in the way a worker does. It stops when the test ends.
func (b *boardHarness) watch(c client.Client) *watcher {
	b.t.Helper()
	w := &watcher{t: b.t, next: make(chan struct{})}
	m := &member.Watcher{
		Client: c, TaskQueue: controlQueue, Apply: w.apply, Logger: b.options.Logger, DataConverter: b.options.DataConverter,
	}
	require.NoError(b.t, m.Bootstrap(b.t.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	w.stop = func() {
		cancel()
		<-done
	}
	b.t.Cleanup(w.stop)
	return w
}

func (w *watcher) apply(table fleet.Table) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tables = append(w.tables, table)
	close(w.next)
	w.next = make(chan struct{})
}

// all returns the tables so far.
func (w *watcher) all() []fleet.Table {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]fleet.Table(nil), w.tables...)
}

// last returns the newest epoch so far.
func (w *watcher) last() int64 {
	var last int64
	for _, table := range w.all() {
		last = max(last, epochOf(table))
	}
	return last
}

// await waits for the first table with this epoch or a newer one, and returns it.
func (w *watcher) await(epoch int64) fleet.Table {
	w.t.Helper()
	return w.awaitFor(epoch, waitTimeout)
}

func (w *watcher) awaitFor(epoch int64, d time.Duration) fleet.Table {
	w.t.Helper()
	deadline := time.After(d)
	for {
		w.mu.Lock()
		next := w.next
		w.mu.Unlock()
		for _, table := range w.all() {
			if epochOf(table) >= epoch {
				return table
			}
		}
		select {
		case <-next:
		case <-deadline:
			require.FailNow(w.t, "a table is missing", "epoch %d: %v", epoch, w.all())
		}
	}
}

func epochOf(table fleet.Table) int64 {
	for _, e := range table.Entries {
		if e.Key == boardKey {
			return e.Verdict.Epoch
		}
	}
	return 0
}

// proxy is a TCP proxy of a server that can be disconnected.
type proxy struct {
	address string

	mu           sync.Mutex
	server       string
	disconnected bool
	conns        map[net.Conn]bool
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{address: listener.Addr().String(), server: server, conns: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = listener.Close()
		p.disconnect()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.forward(conn)
		}
	}()
	return p
}

// forward connects a client with the server, or closes its connection.
func (p *proxy) forward(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.disconnected {
		_ = conn.Close()
		return
	}
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		_ = conn.Close()
		return
	}
	p.conns[conn], p.conns[server] = true, true
	relay := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = to.Close(), from.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
	}
	go relay(server, conn)
	go relay(conn, server)
}

// disconnect closes all connections, and new ones until reconnect.
func (p *proxy) disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disconnected = true
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *proxy) reconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disconnected = false
}

// setServer sets the server of new connections.
func (p *proxy) setServer(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}
