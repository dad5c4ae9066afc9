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

// A worker that shuts down takes its calls with it. That says nothing about whom
// they called.
func testEndingsShutdown(t *testing.T) {
	const calls = 30
	down := hangingServer(t)
	b := newBench(t, client.Options{})
	b.tool("cut-off", opened(3), func(ctx context.Context, _ bool) (string, error) {
		_, err := get(ctx, down.Client(), down.URL)
		return "", err
	})
	b.makePlugin()
	w := b.newWorker("tools", worker.Options{WorkerStopTimeout: 100 * time.Millisecond}, b.activities...)
	require.NoError(t, w.Start())
	stop := sync.OnceFunc(w.Stop)
	t.Cleanup(stop)
	for range calls {
		b.start(t, plan{Tool: "cut-off"})
	}
	require.Eventually(t, func() bool { return b.breaker("cut-off").InFlight == calls }, soon, 10*time.Millisecond)

	stop()
	s := b.settled(t, "cut-off")
	assert.Equal(t, breaker.Closed, s.State)
	assert.Zero(t, s.Evidence)
	assert.Zero(t, s.Counted)
	assert.Equal(t, calls, b.calls("cut-off"))
	assert.Empty(t, b.edges.all)
}

// noting is an interceptor of the user's own. It counts what comes by, and what it
// saw of errors.
type noting struct {
	sdkinterceptor.WorkerInterceptorBase
	worker.PluginBase
	name string

	mu    sync.Mutex
	calls int
	errs  []string
}

// Name and ConfigureWorker make it a plugin, whose interceptor comes after those
// of the plugins before it.
func (n *noting) Name() string { return n.name }

func (n *noting) ConfigureWorker(_ context.Context, o worker.PluginConfigureWorkerOptions) error {
	o.WorkerOptions.Interceptors = append(o.WorkerOptions.Interceptors, n)
	return nil
}

func (n *noting) InterceptActivity(_ context.Context, next sdkinterceptor.ActivityInboundInterceptor) sdkinterceptor.ActivityInboundInterceptor {
	return &notingInbound{sdkinterceptor.ActivityInboundInterceptorBase{Next: next}, n}
}

type notingInbound struct {
	sdkinterceptor.ActivityInboundInterceptorBase
	in *noting
}

func (i *notingInbound) ExecuteActivity(ctx context.Context, in *sdkinterceptor.ExecuteActivityInput) (any, error) {
	result, err := i.Next.ExecuteActivity(ctx, in)
	i.in.mu.Lock()
	defer i.in.mu.Unlock()
	i.in.calls++
	if err != nil {
		i.in.errs = append(i.in.errs, inShort(err))
	}
	return result, err
}

// Other interceptors of a worker stand within ours, wherever they were given: they
// see the calls that pass alone, and can wrap no refusal.
func testEndingsNeighbours(t *testing.T) {
	b := newBench(t, client.Options{})
	b.tool("amid-others", opened(3), obliging)
	b.makePlugin()
	ofWorker := &noting{name: "of the worker"}
	ofPlugin := &noting{name: "of a plugin"}
	b.startWorker("tools", worker.Options{
		Interceptors: []sdkinterceptor.WorkerInterceptor{ofWorker},
		Plugins:      []worker.Plugin{b.plugin, ofPlugin},
	}, b.activities...)

	assert.Equal(t, toolcall.OK, b.call(t, plan{Tool: "amid-others"}).outcome())
	b.expect(t, "amid-others", answered)
	for range 2 {
		assert.Equal(t, toolcall.Failed, b.call(t, plan{Tool: "amid-others", Fail: true}).outcome())
	}
	require.Equal(t, breaker.Open, b.breaker("amid-others").State)
	assertRefused(t, "amid-others", b.call(t, plan{Tool: "amid-others"}))
	assert.Equal(t, 3, b.calls("amid-others"))
	const own = "no connection"
	assert.Equal(t, 3, ofWorker.calls)
	assert.Equal(t, []string{own, own}, ofWorker.errs)
	assert.Equal(t, 3, ofPlugin.calls)
	assert.Equal(t, []string{own, own}, ofPlugin.errs)
}

// Two plugins in one process guard what each was told to, and the workers of one
// plugin share its breakers.
func testEndingsPlugins(t *testing.T) {
	b := newBench(t, client.Options{})
	b.tool("of-the-first", opened(2), obliging)
	b.makePlugin()
	first := b.plugin
	b.config.Dependencies = nil
	b.tool("of-the-second", opened(2), obliging)
	b.makePlugin()
	second := b.plugin
	// Every worker has both tools.
	var all []worker.Worker
	for queue, plugin := range map[string]*interceptor.Plugin{"tools": first, "second": second, "second-too": second} {
		all = append(all, b.newWorker(queue, worker.Options{Plugins: []worker.Plugin{plugin}}, b.activities...))
	}
	for _, w := range all {
		require.NoError(t, w.Start())
		t.Cleanup(w.Stop)
	}

	for range 2 {
		assert.Equal(t, toolcall.Failed, b.call(t, plan{Tool: "of-the-first", Fail: true}).outcome())
	}
	assertRefused(t, "of-the-first", b.call(t, plan{Tool: "of-the-first"}))
	assert.Equal(t, toolcall.OK, b.call(t, plan{Tool: "of-the-first", Queue: "second"}).outcome(), "the other plugin does not guard it")
	assert.Equal(t, toolcall.OK, b.call(t, plan{Tool: "of-the-second"}).outcome(), "nor the first plugin the other one's")
	assert.Zero(t, snapshotOf(second, "of-the-second").Counted)

	// One failure on each of two workers are two.
	for _, queue := range []string{"second", "second-too"} {
		assert.Equal(t, breaker.Closed, snapshotOf(second, "of-the-second").State)
		assert.Equal(t, toolcall.Failed, b.call(t, plan{Tool: "of-the-second", Fail: true, Queue: queue}).outcome())
	}
	for _, queue := range []string{"second", "second-too"} {
		assertRefused(t, "of-the-second", b.call(t, plan{Tool: "of-the-second", Queue: queue}))
	}
	assert.Equal(t, 3, b.calls("of-the-second"))
	assert.Len(t, first.Breakers(), 1)
	assert.Len(t, second.Breakers(), 1)
}

// A plugin that is given twice to a worker guards each call once, and says so.
func testEndingsTwice(t *testing.T) {
	b := newBench(t, client.Options{})
	b.tool("given-twice", opened(2), obliging)
	b.makePlugin()
	w := b.newWorker("tools", worker.Options{Plugins: []worker.Plugin{b.plugin, b.plugin}}, b.activities...)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)

	for range 2 {
		assert.Equal(t, toolcall.OK, b.call(t, plan{Tool: "given-twice"}).outcome())
	}
	b.expect(t, "given-twice", breaker.Counts{Samples: 2})
	assert.Equal(t, 2, b.calls("given-twice"))
	assert.Len(t, b.logs.with("was given to a worker more than once"), 1)
}

// Not parallel: any other test's goroutine would be a leak to it.
func TestEndingsOfAPluginLeaveNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("started and stopped", func(t *testing.T) {
		b := newBench(t, client.Options{})
		b.tool("twice-started", opened(4), obliging)
		b.makePlugin()
		for range 2 {
			first, second := b.newWorker("tools", worker.Options{}, b.activities...), b.newWorker("more-tools", worker.Options{}, b.activities...)
			require.NoError(t, first.Start())
			require.NoError(t, second.Start())
			assert.Equal(t, toolcall.OK, b.call(t, plan{Tool: "twice-started"}).outcome())
			first.Stop()
			second.Stop()
		}
	})
	goleak.VerifyNone(t, before,
		// Of gRPC's own, on their way out; package devserver's tests say why.
		goleak.IgnoreAnyFunction("google.golang.org/grpc/internal/grpcsync.(*CallbackSerializer).run"),
		goleak.IgnoreAnyFunction("google.golang.org/grpc.(*addrConn).resetTransportAndUnlock"),
	)
}
