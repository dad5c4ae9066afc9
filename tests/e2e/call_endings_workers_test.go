package e2e_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdkinterceptor "go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.uber.org/goleak"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// Calls that end because their worker shuts down are no samples.
func testWorkerShutdown(t *testing.T) {
	const calls = 30
	down := hangingServer(t)
	h := newHarness(t, client.Options{})
	h.addTool("hangs", tripsAfter(3), func(ctx context.Context, _ bool) (string, error) {
		_, err := get(ctx, down.Client(), down.URL)
		return "", err
	})
	h.createPlugin()
	w := h.newWorker("tools", worker.Options{WorkerStopTimeout: 100 * time.Millisecond}, h.activities...)
	require.NoError(t, w.Start())
	stop := sync.OnceFunc(w.Stop)
	t.Cleanup(stop)
	for range calls {
		h.startCall(t, callSpec{Tool: "hangs"})
	}
	require.Eventually(t, func() bool { return h.snapshot("hangs").InFlight == calls }, shortTimeout, 10*time.Millisecond)

	stop()
	s := h.awaitNoneInFlight(t, "hangs")
	assert.Equal(t, breaker.Closed, s.State)
	assert.Zero(t, s.Evidence)
	assert.Zero(t, s.Counted)
	assert.Equal(t, calls, h.executions("hangs"))
	assert.Empty(t, h.transitions.all)
}

// recordingInterceptor is an interceptor of a user. It records activity executions and
// their errors.
type recordingInterceptor struct {
	sdkinterceptor.WorkerInterceptorBase
	worker.PluginBase
	name string

	mu    sync.Mutex
	calls int
	errs  []string
}

// Name and ConfigureWorker make it a plugin. Its interceptor comes after the
// interceptors of earlier plugins.
func (r *recordingInterceptor) Name() string { return r.name }

func (r *recordingInterceptor) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) error {
	o.WorkerOptions.Interceptors = append(o.WorkerOptions.Interceptors, r)
	return nil
}

func (r *recordingInterceptor) InterceptActivity(_ context.Context, next sdkinterceptor.ActivityInboundInterceptor) sdkinterceptor.ActivityInboundInterceptor {
	return &recordingInbound{sdkinterceptor.ActivityInboundInterceptorBase{Next: next}, r}
}

type recordingInbound struct {
	sdkinterceptor.ActivityInboundInterceptorBase
	recorder *recordingInterceptor
}

func (i *recordingInbound) ExecuteActivity(ctx context.Context, in *sdkinterceptor.ExecuteActivityInput) (any, error) {
	result, err := i.Next.ExecuteActivity(ctx, in)
	i.recorder.mu.Lock()
	defer i.recorder.mu.Unlock()
	i.recorder.calls++
	if err != nil {
		i.recorder.errs = append(i.recorder.errs, summarize(err))
	}
	return result, err
}

// All other interceptors of a worker come after the plugin's. They see only the calls
// that the breaker allows, and cannot change a refusal.
func testOtherInterceptors(t *testing.T) {
	h := newHarness(t, client.Options{})
	h.addTool("intercepted", tripsAfter(3), failOnRequest)
	h.createPlugin()
	fromOptions := &recordingInterceptor{name: "from the worker options"}
	fromPlugin := &recordingInterceptor{name: "from a plugin"}
	h.startWorker("tools", worker.Options{
		Interceptors: []sdkinterceptor.WorkerInterceptor{fromOptions},
		Plugins:      []worker.Plugin{h.plugin, fromPlugin},
	}, h.activities...)

	assert.Equal(t, toolcall.OK, h.call(t, callSpec{Tool: "intercepted"}).outcome())
	h.awaitSamples(t, "intercepted", answered)
	for range 2 {
		assert.Equal(t, toolcall.Failed, h.call(t, callSpec{Tool: "intercepted", Fail: true}).outcome())
	}
	require.Equal(t, breaker.Open, h.snapshot("intercepted").State)
	assertRefused(t, "intercepted", h.call(t, callSpec{Tool: "intercepted"}))
	assert.Equal(t, 3, h.executions("intercepted"))
	const toolError = "no connection"
	assert.Equal(t, 3, fromOptions.calls)
	assert.Equal(t, []string{toolError, toolError}, fromOptions.errs)
	assert.Equal(t, 3, fromPlugin.calls)
	assert.Equal(t, []string{toolError, toolError}, fromPlugin.errs)
}

// Each of two plugins guards only its own dependencies. All workers of one plugin share
// its breakers.
func testTwoPlugins(t *testing.T) {
	h := newHarness(t, client.Options{})
	h.addTool("first-tool", tripsAfter(2), failOnRequest)
	h.createPlugin()
	first := h.plugin
	h.config.Dependencies = nil
	h.addTool("second-tool", tripsAfter(2), failOnRequest)
	h.createPlugin()
	second := h.plugin
	// Every worker has both tools.
	var all []worker.Worker
	for queue, plugin := range map[string]*interceptor.Plugin{"tools": first, "second": second, "second-other": second} {
		all = append(all, h.newWorker(queue, worker.Options{Plugins: []worker.Plugin{plugin}}, h.activities...))
	}
	for _, w := range all {
		require.NoError(t, w.Start())
		t.Cleanup(w.Stop)
	}

	for range 2 {
		assert.Equal(t, toolcall.Failed, h.call(t, callSpec{Tool: "first-tool", Fail: true}).outcome())
	}
	assertRefused(t, "first-tool", h.call(t, callSpec{Tool: "first-tool"}))
	assert.Equal(t, toolcall.OK, h.call(t, callSpec{Tool: "first-tool", Queue: "second"}).outcome(), "the second plugin does not guard it")
	assert.Equal(t, toolcall.OK, h.call(t, callSpec{Tool: "second-tool"}).outcome(), "the first plugin does not guard it")
	assert.Zero(t, snapshotOf(second, "second-tool").Counted)

	// One failure on each of two workers opens their breaker.
	for _, queue := range []string{"second", "second-other"} {
		assert.Equal(t, breaker.Closed, snapshotOf(second, "second-tool").State)
		assert.Equal(t, toolcall.Failed, h.call(t, callSpec{Tool: "second-tool", Fail: true, Queue: queue}).outcome())
	}
	for _, queue := range []string{"second", "second-other"} {
		assertRefused(t, "second-tool", h.call(t, callSpec{Tool: "second-tool", Queue: queue}))
	}
	assert.Equal(t, 3, h.executions("second-tool"))
	assert.Len(t, first.Breakers(), 1)
	assert.Len(t, second.Breakers(), 1)
}

// A plugin that is given twice to a worker guards each call once, and logs a warning.
func testPluginGivenTwice(t *testing.T) {
	h := newHarness(t, client.Options{})
	h.addTool("given-twice", tripsAfter(2), failOnRequest)
	h.createPlugin()
	w := h.newWorker("tools", worker.Options{Plugins: []worker.Plugin{h.plugin, h.plugin}}, h.activities...)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	for range 2 {
		assert.Equal(t, toolcall.OK, h.call(t, callSpec{Tool: "given-twice"}).outcome())
	}
	h.awaitSamples(t, "given-twice", breaker.Counts{Samples: 2})
	assert.Equal(t, 2, h.executions("given-twice"))
	assert.Len(t, h.logs.with("was given to a worker more than once"), 1)
}

// This test is not parallel: it would report the goroutines of other tests as leaks.
func TestStoppedPluginLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("started and stopped", func(t *testing.T) {
		h := newHarness(t, client.Options{})
		h.addTool("started-twice", tripsAfter(4), failOnRequest)
		h.createPlugin()
		for range 2 {
			first, second := h.newWorker("tools", worker.Options{}, h.activities...), h.newWorker("more-tools", worker.Options{}, h.activities...)
			require.NoError(t, first.Start())
			require.NoError(t, second.Start())
			assert.Equal(t, toolcall.OK, h.call(t, callSpec{Tool: "started-twice"}).outcome())
			first.Stop()
			second.Stop()
		}
	})
	goleak.VerifyNone(t, before,
		// These goroutines of gRPC are about to end. The tests of package devserver explain
		// them.
		goleak.IgnoreAnyFunction("google.golang.org/grpc/internal/grpcsync.(*CallbackSerializer).run"),
		goleak.IgnoreAnyFunction("google.golang.org/grpc.(*addrConn).resetTransportAndUnlock"),
	)
}
