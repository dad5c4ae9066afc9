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

// What a watcher can meet with on its way to the board.

// A change that happens while nothing can be heard is not lost, and needs no
// other change to be noticed.
func TestWatcherHearsWhatHappenedWhileItWasAway(t *testing.T) {
	t.Parallel()
	b := newBoardroom(t, client.Options{})
	line := newLine(t, b.address)
	away, there := b.listen(b.dial(line.address)), b.listen(b.client)
	b.publish(1)
	b.awaitWaiting(away.await(1))

	line.cut()
	b.publish(2)
	there.await(2)
	assert.Less(t, away.last(), int64(2))
	line.mend()
	away.await(2)
}

// The same where it is the process that was away: its next watcher begins with
// what the memo says.
func TestWatcherOfAProcessStartedAgainBeginsWithWhatItMissed(t *testing.T) {
	t.Parallel()
	b := newBoardroom(t, client.Options{})
	first, there := b.listen(b.client), b.listen(b.client)
	b.publish(1)
	b.awaitWaiting(first.await(1))

	first.stop()
	b.publish(2)
	there.await(2)
	again := b.listen(b.client)
	assert.Equal(t, int64(2), again.last(), "before its first task")
	b.publish(3)
	again.await(3)
}

func TestWatcherOutlivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "temporal.db")
	address, stop := runTemporal(t, "-db", db)
	line := newLine(t, address)
	b := openBoardroom(t, line.address, client.Options{Namespace: client.DefaultNamespace})
	l := b.listen(b.client)
	b.publish(1)
	before := l.await(1)
	b.awaitWaiting(before)

	stop()
	line.cut()
	address, _ = runTemporal(t, "-db", db)
	line.lead(address)
	line.mend()
	b.publish(2)
	assert.Greater(t, l.await(2).Version, before.Version)
}

// The board continues as new every few changes here. Each of many watchers hears
// each change all the same.
func TestNoWatcherMissesAVersionWhenTheBoardContinuesAsNew(t *testing.T) {
	t.Parallel()
	const watchers, changes = 20, 40
	b := newBoardroomAlone(t, "-set", "limit.historyCount.suggestContinueAsNew=60")
	var all []*listener
	for range watchers {
		all = append(all, b.listen(b.client))
	}
	runs := map[string]bool{}
	for epoch := int64(1); epoch <= changes; epoch++ {
		b.publish(epoch)
		for _, l := range all {
			l.await(epoch)
		}
		runs[b.run()] = true
	}
	assert.Greater(t, len(runs), 3, "the board has continued as new, and more than once")
	for _, l := range all {
		heard := l.all()
		for i := 1; i < len(heard); i++ {
			assert.Greater(t, heard[i].Version, heard[i-1].Version)
			assert.LessOrEqual(t, epochOf(heard[i])-epochOf(heard[i-1]), int64(1), "each change")
		}
	}

	// Faster than they can be told one by one: the last counts.
	for epoch := int64(changes + 1); epoch <= 2*changes; epoch++ {
		b.publish(epoch)
	}
	for _, l := range all {
		l.await(2 * changes)
	}
}

// As on a namespace's fail-over, or by an operator's hand.
func TestWatchersFollowABoardStartedAnew(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*boardroom){
		"terminated": func(b *boardroom) {
			require.NoError(b.t, b.client.TerminateWorkflow(b.t.Context(), fleet.BoardID, "", "a test"))
		},
		"deleted": func(b *boardroom) {
			_, err := b.client.WorkflowService().DeleteWorkflowExecution(b.t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
				Namespace: b.options.Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: fleet.BoardID},
			})
			require.NoError(b.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoardroom(t, client.Options{})
			one, other := b.listen(b.client), b.listen(b.client)
			b.publish(1)
			before := one.await(1)
			other.await(1)
			b.awaitWaiting(before)
			run := b.run()

			end(b)
			require.Eventually(t, func() bool { return b.run() != run && b.running() }, patience, 50*time.Millisecond,
				"whoever waits has it started again")
			b.publish(2)
			for _, l := range []*listener{one, other} {
				assert.Greater(t, l.await(2).Version, before.Version)
			}
		})
	}
}

// A frontend lets so many calls wait and refuses the rest. The SDK tries those
// again for a minute without a word, and whoever trusted in their wait heard of a
// change a minute late.
func TestWatchersPastTheServersLimitHearOfEachChange(t *testing.T) {
	t.Parallel()
	const limit, watchers = 5, 25
	b := newBoardroomAlone(t, "-set", fmt.Sprint("frontend.namespaceCount=", limit))
	var all []*listener
	for range watchers {
		all = append(all, b.listen(b.client))
	}
	for epoch := int64(1); epoch <= 3; epoch++ {
		b.publish(epoch)
		for _, l := range all {
			l.awaitFor(epoch, 30*time.Second)
		}
	}
}

func TestWatcherWhereEverythingIsEncrypted(t *testing.T) {
	t.Parallel()
	codec := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), newEncrypting(t))
	b := newBoardroom(t, client.Options{DataConverter: codec})
	waiting := b.listen(b.client)
	b.publish(1)
	heard := waiting.await(1)
	require.Len(t, heard.Entries, 1)
	assert.Equal(t, boardKey, heard.Entries[0].Key)
	assert.Equal(t, breaker.Open, heard.Entries[0].Verdict.State)

	late := b.listen(b.client)
	assert.Equal(t, heard, late.all()[0], "the memo says what the wait said")
	b.publish(2)
	late.await(2)

	desc, err := b.client.DescribeWorkflowExecution(t.Context(), fleet.BoardID, "")
	require.NoError(t, err)
	assertEncrypted(t, desc.GetWorkflowExecutionInfo().GetMemo().GetFields()[fleet.TableMemo])
}

var boardKey = breaker.Key{Dependency: "carrier-api", Region: region}

const controlQueue = "toolbreaker"

// boardroom is a namespace with a control worker, and so with a board.
type boardroom struct {
	t       *testing.T
	address string
	options client.Options
	client  client.Client
}

func newBoardroom(t *testing.T, o client.Options) *boardroom {
	t.Helper()
	o.Namespace = newNamespace(t)
	return openBoardroom(t, sharedServer, o)
}

// newBoardroomAlone makes one on a server with these arguments.
func newBoardroomAlone(t *testing.T, args ...string) *boardroom {
	t.Helper()
	address, _ := runTemporal(t, args...)
	return openBoardroom(t, address, client.Options{Namespace: client.DefaultNamespace})
}

func openBoardroom(t *testing.T, address string, o client.Options) *boardroom {
	t.Helper()
	o.Logger = log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	b := &boardroom{t: t, address: address, options: o}
	b.client = b.dial(address)
	control := worker.New(b.client, controlQueue, worker.Options{})
	probeworkflow.Register(control, b.client, controlQueue, func(breaker.Key) (probeworkflow.Settings, error) { return probeworkflow.Settings{}, nil })
	require.NoError(t, control.Start())
	t.Cleanup(control.Stop)
	return b
}

func (b *boardroom) dial(address string) client.Client {
	b.t.Helper()
	o := b.options
	o.HostPort, o.ConnectionOptions = address, uncompressed
	c, err := client.Dial(o)
	require.NoError(b.t, err)
	b.t.Cleanup(c.Close)
	return c
}

// publish makes a change on the board, as an outage does.
func (b *boardroom) publish(epoch int64) {
	b.t.Helper()
	_, err := b.client.SignalWithStartWorkflow(b.t.Context(), fleet.BoardID, fleet.VerdictSignal,
		fleet.Entry{Key: boardKey, Verdict: breaker.Verdict{State: breaker.Open, Epoch: epoch}},
		member.BoardOptions(controlQueue), fleet.BoardWorkflow, fleet.BoardInput{})
	require.NoError(b.t, err)
}

// awaitWaiting returns when a watcher of this table's version waits on the board.
func (b *boardroom) awaitWaiting(table fleet.Table) {
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
	}, patience, 20*time.Millisecond, "nobody waits with %s", id)
}

// run is the board's current run, "" where there is none.
func (b *boardroom) run() string {
	desc, err := b.client.DescribeWorkflowExecution(b.t.Context(), fleet.BoardID, "")
	if err != nil {
		return ""
	}
	return desc.GetWorkflowExecutionInfo().GetExecution().GetRunId()
}

func (b *boardroom) running() bool {
	desc, err := b.client.DescribeWorkflowExecution(b.t.Context(), fleet.BoardID, "")
	return err == nil && desc.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING
}

// listener is a watcher, with the tables it was given.
type listener struct {
	t    *testing.T
	stop func()

	mu     sync.Mutex
	tables []fleet.Table
	next   chan struct{} // closed and replaced with each table
}

// listen starts a watcher as a worker's start does, until the test ends.
func (b *boardroom) listen(c client.Client) *listener {
	b.t.Helper()
	l := &listener{t: b.t, next: make(chan struct{})}
	w := &member.Watcher{
		Client: c, TaskQueue: controlQueue, Apply: l.apply, Logger: b.options.Logger, DataConverter: b.options.DataConverter,
	}
	require.NoError(b.t, w.Bootstrap(b.t.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	l.stop = func() {
		cancel()
		<-done
	}
	b.t.Cleanup(l.stop)
	return l
}

func (l *listener) apply(table fleet.Table) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tables = append(l.tables, table)
	close(l.next)
	l.next = make(chan struct{})
}

// all are the tables so far.
func (l *listener) all() []fleet.Table {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]fleet.Table(nil), l.tables...)
}

// last is the newest verdict's epoch.
func (l *listener) last() int64 {
	var last int64
	for _, table := range l.all() {
		last = max(last, epochOf(table))
	}
	return last
}

// await waits for the first table with this epoch, or a newer one.
func (l *listener) await(epoch int64) fleet.Table {
	l.t.Helper()
	return l.awaitFor(epoch, patience)
}

func (l *listener) awaitFor(epoch int64, d time.Duration) fleet.Table {
	l.t.Helper()
	deadline := time.After(d)
	for {
		l.mu.Lock()
		next := l.next
		l.mu.Unlock()
		for _, table := range l.all() {
			if epochOf(table) >= epoch {
				return table
			}
		}
		select {
		case <-next:
		case <-deadline:
			require.FailNow(l.t, "the watcher was not told", "of epoch %d: %v", epoch, l.all())
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

// line is a connection to a server that can be cut and mended.
type line struct {
	address string

	mu      sync.Mutex
	server  string
	isCut   bool
	carried map[net.Conn]bool
}

func newLine(t *testing.T, server string) *line {
	t.Helper()
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &line{address: listening.Addr().String(), server: server, carried: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = listening.Close()
		l.cut()
	})
	go func() {
		for {
			caller, err := listening.Accept()
			if err != nil {
				return
			}
			l.carry(caller)
		}
	}()
	return l
}

// carry connects a caller with the server, or hangs up on it.
func (l *line) carry(caller net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut {
		_ = caller.Close()
		return
	}
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		_ = caller.Close()
		return
	}
	l.carried[caller], l.carried[server] = true, true
	relay := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = to.Close(), from.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.carried, from)
	}
	go relay(server, caller)
	go relay(caller, server)
}

// cut ends every connection, and refuses new ones until the line is mended.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for c := range l.carried {
		_ = c.Close()
	}
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
}

// lead has the line lead to another server from now on.
func (l *line) lead(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = server
}
