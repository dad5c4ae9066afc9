package interceptor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	sdkinterceptor "go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// configured lets the plugin configure a worker. It changes the options, and returns a
// function that registers an activity.
func configured(t *testing.T, p *interceptor.Plugin, taskQueue string, o *worker.Options, before func(any, activity.RegisterOptions)) (register func(name string, f any)) {
	t.Helper()
	registry := worker.PluginConfigureWorkerRegistryOptions{OnRegisterActivity: before}
	require.NoError(t, p.ConfigureWorker(t.Context(), worker.PluginConfigureWorkerOptions{
		TaskQueue: taskQueue, WorkerOptions: o, WorkerRegistryOptions: &registry,
	}))
	return func(name string, f any) { registry.OnRegisterActivity(f, activity.RegisterOptions{Name: name}) }
}

func TestConfigureWorker_KeepsOtherInterceptorsAndCallbacks(t *testing.T) {
	t.Parallel()
	theirs := &seen{}
	o := worker.Options{Interceptors: []sdkinterceptor.WorkerInterceptor{theirs}}
	var registered []string
	register := configured(t, newPlugin(t, guarded(&clock{})), "tools", &o, func(_ any, o activity.RegisterOptions) {
		registered = append(registered, o.Name)
	})
	require.Len(t, o.Interceptors, 2)
	assert.Same(t, theirs, o.Interceptors[1], "inside the plugin's")
	register(tool, LookUp)
	assert.Equal(t, []string{tool}, registered, "the other callback is called too")
}

func start(p *interceptor.Plugin) (started bool, err error) {
	err = p.StartWorker(context.Background(), worker.PluginStartWorkerOptions{}, func(context.Context, worker.PluginStartWorkerOptions) error {
		started = true
		return nil
	})
	return started, err
}

// A misspelt tool would not be guarded, and nothing would show it.
func TestStartWorker_NamesUnregisteredActivities(t *testing.T) {
	t.Parallel()
	c := guarded(&clock{})
	c.Dependencies[0].Tools = interceptor.Tools("get_delivery_status", "get_delivery_stauts")
	c.Dependencies = append(c.Dependencies,
		interceptor.Dependency{Name: "orders-db", Tools: interceptor.Tools("lookup_order"), Probe: interceptor.Synthetic("ping_orders")},
		interceptor.Dependency{Name: "search", Tools: interceptor.Tools("find"), Probe: interceptor.NoProbe()})
	p := newPlugin(t, c)
	register := configured(t, p, "tools", &worker.Options{}, nil)
	register("get_delivery_status", LookUp)
	register("find", LookUp)
	started, err := start(p)
	assert.False(t, started)
	const missing, known = `: no worker of this plugin has registered an activity "`, `"; registered are: find, get_delivery_status`
	assert.EqualError(t, err, "toolbreaker configuration:\n"+
		"Dependencies[0] (carrier-api).Tools[1]"+missing+"get_delivery_stauts"+known+"\n"+
		"Dependencies[1] (orders-db).Tools[0]"+missing+"lookup_order"+known+"\n"+
		"Dependencies[1] (orders-db).Probe"+missing+"ping_orders"+known)
}

// The workers of one plugin often have different task queues.
func TestConfigureWorker_RecordsTheTaskQueues(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	configured(t, p, "tools", &worker.Options{}, nil)("create_label", LookUp)
	configured(t, p, "slow-tools", &worker.Options{}, nil)("get_delivery_status", LookUp)
	s, err := p.Settings(key)
	require.NoError(t, err)
	assert.Equal(t, "slow-tools", s.Call.TaskQueue, "a probe runs where its activity does")
}

// The result type decides how a tool is refused. It is taken from the registration, here of a
// struct's method with a prefix.
func TestConfigureWorker_RecordsTheResultTypesOfMethods(t *testing.T) {
	t.Parallel()
	c := guarded(&clock{})
	c.Dependencies[0].Tools = interceptor.Tools("carrier_Status", "carrier_Typed")
	c.Dependencies[0].Probe = interceptor.NoProbe()
	p := newPlugin(t, c)
	env := newSuite().NewTestActivityEnvironment()
	env.SetWorkerOptions(options(p, &seen{}))
	env.RegisterActivityWithOptions(&byPointer{}, activity.RegisterOptions{Name: "carrier_"})
	open(p)
	_, err := env.ExecuteActivity("carrier_Status", query{})
	assert.Error(t, err)
	value, err := env.ExecuteActivity("carrier_Typed", query{})
	require.NoError(t, err)
	var result toolcall.Result[status]
	require.NoError(t, value.Get(&result))
	assert.Equal(t, toolcall.Refused, result.Outcome())
}

func TestSettings_OfADependency(t *testing.T) {
	t.Parallel()
	c := guarded(&clock{})
	c.Dependencies[0].Probe = interceptor.SyntheticIn("get_delivery_status", inRegion)
	p := newPlugin(t, c)
	configured(t, p, "tools", &worker.Options{}, nil)("get_delivery_status", LookUp)
	east := breaker.Key{Dependency: "carrier-api", Region: "us-east"}
	s, err := p.Settings(east)
	require.NoError(t, err)
	args, err := probeworkflow.EncodeArgs(converter.GetDefaultDataConverter(), []any{query{ID: "PROBE-us-east"}})
	require.NoError(t, err)
	assert.Equal(t, probeworkflow.Settings{
		Key: east, Breaker: c.Dependencies[0].Breaker.WithDefaults(),
		Call: &probeworkflow.Call{Activity: "get_delivery_status", Args: args, TaskQueue: "tools", QueueTimeout: 30 * time.Second},
	}, s)
}

// A call that no worker takes is given up after a cooldown, or the time of two calls.
func TestSettings_LimitTheWaitForAWorker(t *testing.T) {
	t.Parallel()
	c := guarded(&clock{})
	c.Dependencies[0].Breaker = breaker.Config{Latency: 5 * time.Second, Cooldown: time.Second}
	s, err := newPlugin(t, c).Settings(key)
	require.NoError(t, err)
	assert.Equal(t, 10*time.Second, s.Call.QueueTimeout)
}

func TestSettings_WithoutAProbe(t *testing.T) {
	t.Parallel()
	c := guarded(&clock{})
	c.Dependencies[0].Probe = interceptor.NoProbe()
	s, err := newPlugin(t, c).Settings(key)
	require.NoError(t, err)
	assert.Nil(t, s.Call)
}

func TestSettings_Errors(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	_, err := p.Settings(breaker.Key{Dependency: "other", Region: "eu-west"})
	assert.EqualError(t, err, `no dependency "other" is configured`)

	// With a Region function, the arguments are first needed in an outage.
	c := guarded(&clock{})
	c.Dependencies[0].Region = interceptor.RegionOf(func(q query) string { return q.Region })
	c.Dependencies[0].Probe = interceptor.Synthetic("get_delivery_status", make(chan int))
	_, err = newPlugin(t, c).Settings(key)
	assert.ErrorContains(t, err, "encoding the probe's arguments of carrier-api/eu-west")
}

// The arguments may have to be encrypted.
func TestSettings_UseTheDataConverter(t *testing.T) {
	t.Parallel()
	dc := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), converter.NewZlibCodec(converter.ZlibCodecOptions{AlwaysEncode: true}))
	c := guarded(&clock{})
	c.DataConverter = dc
	s, err := newPlugin(t, c).Settings(key)
	require.NoError(t, err)
	args, err := probeworkflow.EncodeArgs(dc, []any{query{ID: "PROBE-1"}})
	require.NoError(t, err)
	assert.Equal(t, args, s.Call.Args)
}

// A hanging call is found at a tick.
func TestTick_IsATwentiethOfTheShortestLatency(t *testing.T) {
	t.Parallel()
	of := func(latencies ...time.Duration) interceptor.Config {
		var c interceptor.Config
		for _, l := range latencies {
			c.Dependencies = append(c.Dependencies, interceptor.Dependency{Breaker: breaker.Config{Latency: l}})
		}
		return c
	}
	assert.Equal(t, 250*time.Millisecond, of(0).Tick())
	assert.Equal(t, 250*time.Millisecond, of(time.Minute).Tick(), "the longest interval")
	assert.Equal(t, 50*time.Millisecond, of(time.Minute, time.Second, 0).Tick())
	assert.Equal(t, 10*time.Millisecond, of(10*time.Millisecond).Tick(), "the shortest interval")
}

func TestOnTransition_GetsEachTransitionInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var edges []breaker.Transition
		c := guarded(nil)
		c.Clock = newBubbleClock()
		c.OnTransition = func(edge breaker.Transition) { edges = append(edges, edge) }
		p := newPlugin(t, c)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); p.RunBreakers(ctx) }()
		fail(t, p, 10)
		// Without a fleet the breaker moves on by itself, and fails open.
		time.Sleep(time.Hour)
		cancel()
		<-done
		var names []string
		for _, e := range edges {
			assert.Equal(t, key, e.Key)
			assert.True(t, e.Local)
			names = append(names, e.From.String()+" to "+e.To.String())
		}
		assert.Equal(t, []string{"closed to open", "open to half-open", "half-open to recovering", "recovering to closed"}, names)
		assert.Equal(t, breaker.RuleFailureRate, edges[0].Reason.Rule)
	})
}

// Code that cleans up may stop a worker that failed to start. That must not stop the plugin
// while other workers run.
func TestStopWorker_StopsThePluginWithTheLastWorkerThatStarted(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	var order []string
	p.PretendStarted(func() { order = append(order, "plugin") }, "a", "b")
	stop := func(instance string) {
		p.StopWorker(t.Context(), worker.PluginStopWorkerOptions{WorkerInstanceKey: instance}, func(context.Context, worker.PluginStopWorkerOptions) {
			order = append(order, instance)
		})
	}
	failed := errors.New("namespace not found")
	for _, instance := range []string{"c", "failed to start"} {
		err := p.StartWorker(t.Context(), worker.PluginStartWorkerOptions{WorkerInstanceKey: instance},
			func(context.Context, worker.PluginStartWorkerOptions) error { return failed })
		require.ErrorIs(t, err, failed)
	}
	stop("failed to start")
	stop("never started")
	stop("a")
	stop("a")
	assert.Equal(t, []string{"failed to start", "never started", "a", "a"}, order)
	stop("b")
	assert.Equal(t, []string{"b", "plugin"}, order[4:], "after the worker has drained, so that its last calls are reported")
	stop("b")
	assert.Len(t, order, 7, "once")
}
