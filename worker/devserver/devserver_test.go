//go:build !noserver

package devserver_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.uber.org/goleak"

	"github.com/toolbreaker/toolbreaker/worker/devserver"
)

const taskQueue = "devserver-test"

func greet(_ context.Context, name string) (string, error) { return "hello " + name, nil }

func greetWorkflow(ctx workflow.Context, name string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
	var greeting string
	err := workflow.ExecuteActivity(ctx, greet, name).Get(ctx, &greeting)
	return greeting, err
}

func waitWorkflow(ctx workflow.Context) (string, error) {
	var word string
	workflow.GetSignalChannel(ctx, "word").Receive(ctx, &word)
	return word, nil
}

func timerWorkflow(ctx workflow.Context) (time.Duration, error) {
	before := workflow.Now(ctx)
	err := workflow.Sleep(ctx, 100*time.Millisecond)
	return workflow.Now(ctx).Sub(before), err
}

func startServer(t *testing.T, o devserver.Options) *devserver.Server {
	t.Helper()
	s, err := devserver.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

func dial(t *testing.T, s *devserver.Server) client.Client {
	t.Helper()
	c, err := s.Client(client.Options{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func startWorker(t *testing.T, c client.Client) worker.Worker {
	t.Helper()
	w := worker.New(c, taskQueue, worker.Options{})
	w.RegisterWorkflow(greetWorkflow)
	w.RegisterWorkflow(waitWorkflow)
	w.RegisterWorkflow(timerWorkflow)
	w.RegisterActivity(greet)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return w
}

func execute[T any](t *testing.T, c client.Client, o client.StartWorkflowOptions, fn any, args ...any) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	o.TaskQueue = taskQueue
	run, err := c.ExecuteWorkflow(ctx, o, fn, args...)
	require.NoError(t, err)
	var result T
	require.NoError(t, run.Get(ctx, &result))
	return result
}

func TestRunsAWorkflow(t *testing.T) {
	s := startServer(t, devserver.Options{})
	c := dial(t, s)
	startWorker(t, c)

	assert.Equal(t, "hello world", execute[string](t, c, client.StartWorkflowOptions{}, greetWorkflow, "world"))
	assert.Equal(t, devserver.DefaultNamespace, s.Namespace())
}

func TestIsReadyWhenStartReturns(t *testing.T) {
	for range 3 {
		s, err := devserver.Start(t.Context(), devserver.Options{NoUI: true, SearchAttributes: attributes})
		require.NoError(t, err)
		c, err := s.Client(client.Options{})
		require.NoError(t, err)

		// The first call, without retries.
		_, err = c.WorkflowService().StartWorkflowExecution(t.Context(), startRequest("first"))
		assert.NoError(t, err)
		// The namespace holds no workflows of the server itself.
		assert.Equal(t, []string{"first"}, eventuallyListed(t, c, "", 1))

		c.Close()
		s.Stop()
	}
}

func TestNamespaceOption(t *testing.T) {
	s := startServer(t, devserver.Options{NoUI: true, Namespace: "shipping"})
	c := dial(t, s)
	startWorker(t, c)

	assert.Equal(t, "shipping", s.Namespace())
	assert.Equal(t, "hello world", execute[string](t, c, client.StartWorkflowOptions{}, greetWorkflow, "world"))
}

func TestServersOfOneProcessAreSeparate(t *testing.T) {
	var servers [3]*devserver.Server
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			s, err := devserver.Start(t.Context(), devserver.Options{})
			if assert.NoError(t, err) {
				servers[i] = s
			}
		})
	}
	wg.Wait()
	for _, s := range servers {
		require.NotNil(t, s)
		t.Cleanup(s.Stop)
	}
	for i, s := range servers {
		c := dial(t, s)
		_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "server-" + strconv.Itoa(i), TaskQueue: taskQueue}, waitWorkflow)
		require.NoError(t, err)
		assert.Equal(t, []string{"server-" + strconv.Itoa(i)}, eventuallyListed(t, c, "", 1))
	}
}

func TestStopTwice(t *testing.T) {
	s := startServer(t, devserver.Options{Port: freePort(t), UIPort: freePort(t)})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(s.Stop)
	}
	wg.Wait()

	for _, address := range []string{s.HostPort(), strings.TrimPrefix(s.UIURL(), "http://")} {
		l, err := net.Listen("tcp", address)
		require.NoError(t, err, "the port is free when Stop returns")
		require.NoError(t, l.Close())
	}
}

func TestStartFailsWhenItsContextIsDone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := devserver.Start(ctx, devserver.Options{NoUI: true})
	assert.ErrorIs(t, err, context.Canceled)
}

// ---- ports

// occupy opens a port, unless another process has it.
func occupy(t *testing.T, port int) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		t.Cleanup(func() { _ = l.Close() })
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return portOf(t, l.Addr().String())
}

func portOf(t *testing.T, hostPort string) int {
	t.Helper()
	_, p, err := net.SplitHostPort(hostPort)
	require.NoError(t, err)
	port, err := strconv.Atoi(p)
	require.NoError(t, err)
	return port
}

func TestTakenDefaultPortsSelectAnotherPair(t *testing.T) {
	for _, taken := range []int{7233, 8233} {
		t.Run(strconv.Itoa(taken), func(t *testing.T) {
			occupy(t, taken)
			s := startServer(t, devserver.Options{})
			port, uiPort := portOf(t, s.HostPort()), portOf(t, strings.TrimPrefix(s.UIURL(), "http://"))
			assert.NotEqual(t, 7233, port)
			assert.Equal(t, port+1000, uiPort, "the offset of the UI's port stays")

			c := dial(t, s)
			startWorker(t, c)
			assert.Equal(t, "hello world", execute[string](t, c, client.StartWorkflowOptions{}, greetWorkflow, "world"))
		})
	}
}

func TestGivenPortsAreUsed(t *testing.T) {
	port, uiPort := freePort(t), freePort(t)
	s := startServer(t, devserver.Options{Port: port, UIPort: uiPort})
	assert.Equal(t, port, portOf(t, s.HostPort()))
	assert.Equal(t, uiPort, portOf(t, strings.TrimPrefix(s.UIURL(), "http://")))
}

func TestGivenPortThatIsTakenIsAnError(t *testing.T) {
	port := freePort(t)
	occupy(t, port)
	for option, o := range map[string]devserver.Options{"Port": {Port: port}, "UIPort": {UIPort: port}} {
		_, err := devserver.Start(t.Context(), o)
		assert.EqualError(t, err, fmt.Sprintf("embedded Temporal server: port %d on 127.0.0.1 is taken: stop the process that listens there, or set %s to another port, or to 0 for a free port", port, option))
	}
}

func TestInvalidOptions(t *testing.T) {
	for name, o := range map[string]devserver.Options{
		"Port is 70000":                 {Port: 70000},
		"Port and UIPort are both 7233": {Port: 7233, UIPort: 7233},
		"TimerResolution is":            {TimerResolution: time.Microsecond},
		"reserves this name":            {NoUI: true, SearchAttributes: map[string]enumspb.IndexedValueType{"WorkflowId": enumspb.INDEXED_VALUE_TYPE_KEYWORD}},
		"no free column":                {NoUI: true, SearchAttributes: map[string]enumspb.IndexedValueType{"Nothing": enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED}},
	} {
		_, err := devserver.Start(t.Context(), o)
		assert.ErrorContains(t, err, name)
	}
}

// ---- database file

func TestFileKeepsStateAfterStop(t *testing.T) {
	o := devserver.Options{NoUI: true, DBFile: filepath.Join(t.TempDir(), "odd name?#%.db")}

	s, err := devserver.Start(t.Context(), o)
	require.NoError(t, err)
	c, err := s.Client(client.Options{})
	require.NoError(t, err)
	w := startWorker(t, c)
	execute[string](t, c, client.StartWorkflowOptions{ID: "closed"}, greetWorkflow, "world")
	_, err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "open", TaskQueue: taskQueue}, waitWorkflow)
	require.NoError(t, err)
	w.Stop()
	c.Close()
	s.Stop()

	for _, beside := range []string{"-wal", "-journal"} {
		info, err := os.Stat(o.DBFile + beside)
		assert.True(t, err != nil || info.Size() == 0, "the file alone holds all state, but %s is not empty", beside)
	}

	c = dial(t, startServer(t, o))
	startWorker(t, c)
	var result string
	require.NoError(t, c.GetWorkflow(t.Context(), "closed", "").Get(t.Context(), &result))
	assert.Equal(t, "hello world", result)

	require.NoError(t, c.SignalWorkflow(t.Context(), "open", "", "word", "on"))
	require.NoError(t, c.GetWorkflow(t.Context(), "open", "").Get(t.Context(), &result))
	assert.Equal(t, "on", result)
}

func TestFileOfAnotherServerInThisProcess(t *testing.T) {
	o := devserver.Options{NoUI: true, DBFile: filepath.Join(t.TempDir(), "state.db")}
	startServer(t, o)

	_, err := devserver.Start(t.Context(), o)
	assert.ErrorContains(t, err, "database file "+o.DBFile+" is in use by another server of this process")
}

func TestFileOfAnotherProcess(t *testing.T) {
	o := devserver.Options{NoUI: true, DBFile: filepath.Join(t.TempDir(), "state.db")}
	other, err := sql.Open("sqlite", "file:"+o.DBFile)
	require.NoError(t, err)
	defer func() { _ = other.Close() }()
	tx, err := other.Conn(t.Context())
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
	require.NoError(t, err)

	_, err = devserver.Start(t.Context(), o)
	assert.ErrorContains(t, err, "database file "+o.DBFile+" is in use by another process: stop that process, or use another DBFile")

	_, err = tx.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	startServer(t, o)
	_, err = tx.ExecContext(t.Context(), "BEGIN")
	if err == nil {
		_, err = tx.ExecContext(t.Context(), "SELECT name FROM sqlite_master")
	}
	assert.ErrorContains(t, err, "SQLITE_BUSY", "the server holds an exclusive lock")
}

func TestFileThatIsNotADatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(file, []byte("a file of some other kind, long enough to be one"), 0o600))
	_, err := devserver.Start(t.Context(), devserver.Options{NoUI: true, DBFile: file})
	assert.ErrorContains(t, err, "database file "+file+" cannot be used")

	missing := filepath.Join(t.TempDir(), "missing", "state.db")
	_, err = devserver.Start(t.Context(), devserver.Options{NoUI: true, DBFile: missing})
	assert.ErrorContains(t, err, "database file "+missing+": its directory cannot be used: create it first")
}

// ---- search attributes

var (
	breakerState = temporal.NewSearchAttributeKeyKeyword("BreakerState")
	breakerEpoch = temporal.NewSearchAttributeKeyInt64("BreakerEpoch")

	attributes = map[string]enumspb.IndexedValueType{
		breakerState.GetName(): enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		breakerEpoch.GetName(): enumspb.INDEXED_VALUE_TYPE_INT,
	}
)

func startRequest(id string) *workflowservice.StartWorkflowExecutionRequest {
	state, _ := json.Marshal("open")
	return &workflowservice.StartWorkflowExecutionRequest{
		Namespace:    devserver.DefaultNamespace,
		WorkflowId:   id,
		RequestId:    id,
		WorkflowType: &commonpb.WorkflowType{Name: "waitWorkflow"},
		TaskQueue:    &taskqueuepb.TaskQueue{Name: taskQueue},
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{
			breakerState.GetName(): {Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: state},
		}},
	}
}

// eventuallyListed returns the IDs that match query once there are n. Workflows are
// listed shortly after their start.
func eventuallyListed(t *testing.T, c client.Client, query string, n int) []string {
	t.Helper()
	var ids []string
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		answer, err := c.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		require.NoError(t, err)
		ids = nil
		for _, e := range answer.Executions {
			ids = append(ids, e.Execution.WorkflowId)
		}
		assert.Len(t, ids, n)
	}, 10*time.Second, 10*time.Millisecond)
	return ids
}

func requireUsable(t *testing.T, c client.Client, id string) {
	t.Helper()
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID:                    id,
		TaskQueue:             taskQueue,
		TypedSearchAttributes: temporal.NewSearchAttributes(breakerState.ValueSet("open"), breakerEpoch.ValueSet(7)),
	}, waitWorkflow)
	require.NoError(t, err)
	assert.Equal(t, []string{id}, eventuallyListed(t, c, "BreakerState = 'open' AND BreakerEpoch = 7 AND WorkflowId = '"+id+"'", 1))
}

func TestSearchAttributesAreUsable(t *testing.T) {
	requireUsable(t, dial(t, startServer(t, devserver.Options{NoUI: true, SearchAttributes: attributes})), "new")
}

func TestSearchAttributesAreAddedToAnExistingFile(t *testing.T) {
	o := devserver.Options{NoUI: true, DBFile: filepath.Join(t.TempDir(), "state.db")}
	for _, has := range []map[string]enumspb.IndexedValueType{
		nil,
		{breakerEpoch.GetName(): enumspb.INDEXED_VALUE_TYPE_INT},
	} {
		o.SearchAttributes = has
		s, err := devserver.Start(t.Context(), o)
		require.NoError(t, err)
		s.Stop()
	}

	o.SearchAttributes = attributes
	s := startServer(t, o)
	requireUsable(t, dial(t, s), "added")
	s.Stop()

	o.SearchAttributes = map[string]enumspb.IndexedValueType{breakerEpoch.GetName(): enumspb.INDEXED_VALUE_TYPE_TEXT}
	_, err := devserver.Start(t.Context(), o)
	assert.ErrorContains(t, err, "search attribute BreakerEpoch is registered as Int, not as Text")
}

// ---- timers

func TestTimerResolution(t *testing.T) {
	c := dial(t, startServer(t, devserver.Options{NoUI: true, TimerResolution: 10 * time.Millisecond}))
	startWorker(t, c)
	// The best of five, because the machine may be busy.
	best := time.Hour
	for range 5 {
		best = min(best, execute[time.Duration](t, c, client.StartWorkflowOptions{}, timerWorkflow))
	}
	assert.Less(t, best, 500*time.Millisecond, "a timer of 100ms")
}

// ---- web UI

func get(t *testing.T, url string) (int, string, http.Header) {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body), response.Header
}

func TestWebUI(t *testing.T) {
	s := startServer(t, devserver.Options{Namespace: "shipping"})
	c := dial(t, s)

	t.Run("serves its pages", func(t *testing.T) {
		for _, path := range []string{"/", "/namespaces/shipping/workflows"} {
			status, body, header := get(t, s.UIURL()+path)
			assert.Equal(t, http.StatusOK, status)
			assert.Contains(t, header.Get("Content-Type"), "text/html")
			assert.Contains(t, body, "/_app/")
		}
	})
	t.Run("reads from the server", func(t *testing.T) {
		status, body, _ := get(t, s.UIURL()+"/api/v1/namespaces")
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, body, `"shipping"`)
	})
	t.Run("allows write actions and requests no news", func(t *testing.T) {
		_, body, _ := get(t, s.UIURL()+"/api/v1/settings")
		var settings map[string]any
		require.NoError(t, json.Unmarshal([]byte(body), &settings))
		for _, off := range []string{
			"DisableWriteActions", "WorkflowSignalDisabled", "WorkflowUpdateDisabled", "WorkflowTerminateDisabled",
			"WorkflowCancelDisabled", "WorkflowResetDisabled", "StartWorkflowDisabled", "NotifyOnNewVersion",
		} {
			assert.Equal(t, false, settings[off], off)
		}
		assert.Equal(t, true, settings["DisableNewsFetch"])
		assert.Equal(t, "shipping", settings["DefaultNamespace"])
		_, body, _ = get(t, s.UIURL()+"/api/v1/releases")
		assert.JSONEq(t, `{"Releases": {}}`, body)
	})
	t.Run("signals a workflow", func(t *testing.T) {
		startWorker(t, c)
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "waits", TaskQueue: taskQueue}, waitWorkflow)
		require.NoError(t, err)
		signal := s.UIURL() + "/api/v1/namespaces/shipping/workflows/waits/signal/word"

		require.Equal(t, http.StatusOK, post(t, signal, `{"input": {"payloads": [{"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": "ImZyb20gdGhlIFVJIg=="}]}}`))
		var word string
		require.NoError(t, run.Get(t.Context(), &word))
		assert.Equal(t, "from the UI", word)
	})
	t.Run("refuses other sites", func(t *testing.T) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.UIURL()+"/api/v1/namespaces/shipping/workflows/waits/signal/word", nil)
		require.NoError(t, err)
		request.Header.Set("Origin", "http://elsewhere.example")
		request.Header.Set("Sec-Fetch-Site", "cross-site")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		_ = response.Body.Close()
		assert.Equal(t, http.StatusForbidden, response.StatusCode)
	})
}

// post sends a request as the UI's pages do, with the CSRF token as a cookie and as a
// header.
func post(t *testing.T, url, body string) int {
	t.Helper()
	page, err := http.Get(url)
	require.NoError(t, err)
	_ = page.Body.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	for _, cookie := range page.Cookies() {
		request.AddCookie(cookie)
		if cookie.Name == "_csrf" {
			request.Header.Set("X-CSRF-Token", cookie.Value)
		}
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	answer, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Log(string(answer))
	}
	return response.StatusCode
}

func TestNoUI(t *testing.T) {
	assert.Empty(t, startServer(t, devserver.Options{NoUI: true}).UIURL())
}

// ---- leaks

func TestStopLeavesNoGoroutine(t *testing.T) {
	before, connectionsBefore := goleak.IgnoreCurrent(), openConnections()
	// Separate ports: connections of other tests' servers would reconnect to the default
	// ones.
	s, err := devserver.Start(t.Context(), devserver.Options{Port: freePort(t), UIPort: freePort(t)})
	require.NoError(t, err)
	get(t, s.UIURL()+"/api/v1/namespaces")
	http.DefaultClient.CloseIdleConnections()
	s.Stop()

	goleak.VerifyNone(t, before,
		// The server's SQLite plugin keeps its connection until the process ends.
		goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"),
		// The server never closes the SDK client of its own workers.
		goleak.IgnoreAnyFunction(connectionGoroutine),
		goleak.IgnoreAnyFunction("google.golang.org/grpc.(*addrConn).resetTransportAndUnlock"),
	)
	assert.LessOrEqual(t, openConnections()-connectionsBefore, 1, "only the connection of the SDK client is left")
}

// connectionGoroutine runs three times per open gRPC client connection.
const connectionGoroutine = "google.golang.org/grpc/internal/grpcsync.(*CallbackSerializer).run"

func openConnections() int {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Count(stacks, []byte("\n"+connectionGoroutine+"(")) / 3
}
