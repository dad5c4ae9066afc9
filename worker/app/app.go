package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdkinterceptor "go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/activities/orders"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/worker/agent"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
	"github.com/toolbreaker/toolbreaker/worker/connect"
	"github.com/toolbreaker/toolbreaker/worker/devserver"
)

// TaskQueue is the task queue of the agent's workflow and its tools.
const TaskQueue = "support-agent"

// Options configure an App. The zero value runs in real time on an embedded
// server in memory.
type Options struct {
	// Speed divides every duration of the example: the carrier's work, timeouts,
	// the breaker's thresholds and cooldowns. Zero: 1.
	Speed float64
	// Server configures the embedded Temporal server.
	Server devserver.Options
	// Embedded uses the embedded server even if the environment configures one.
	Embedded bool
	// Temporal, if it has a HostPort, configures the connection to the server. The
	// environment is then ignored, and no server is started.
	Temporal client.Options
	// CarrierAddr is where the carrier listens. Empty: a free port of 127.0.0.1.
	CarrierAddr string
	// Latency is the breaker's latency threshold before it is divided by Speed.
	// Zero: 5 seconds.
	Latency time.Duration
	// CarrierURL is the URL of a running carrier. The app then starts neither a
	// carrier nor a server: the environment must configure a server.
	CarrierURL string
	// Models are the names of the agent's models, best first, at the endpoint that
	// OPENAI_BASE_URL and OPENAI_API_KEY configure. Empty: the scripted model, which
	// needs no provider.
	Models []string
	// Logger receives the log of the SDK. Nil: nothing is logged.
	Logger *slog.Logger
}

// App is a running example. Stop it with Stop.
type App struct {
	Options Options
	Client  client.Client
	// Server is the embedded Temporal server. Nil: the environment configures one.
	Server  *devserver.Server
	Carrier *carrier.Server
}

// CheckSpeed returns an error for a speed that the example cannot run at.
func CheckSpeed(speed float64) error {
	if !(speed >= 0.1 && speed <= 100) {
		return fmt.Errorf("speed %v is out of range: use a number from 0.1 to 100", speed)
	}
	return nil
}

// Start starts the server and the carrier, and connects to the server. It starts
// no worker.
func Start(ctx context.Context, o Options) (*App, error) {
	if o.Speed == 0 {
		o.Speed = 1
	}
	if err := CheckSpeed(o.Speed); err != nil {
		return nil, err
	}
	if err := checkModels(o.Models); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &App{Options: o}
	if err := a.connect(ctx); err != nil {
		a.Stop()
		return nil, err
	}
	if o.CarrierURL != "" {
		return a, nil
	}
	var err error
	if a.Carrier, err = carrier.Start(carrier.Options{Addr: o.CarrierAddr, Speed: o.Speed, Seed: 1}); err != nil {
		a.Stop()
		return nil, err
	}
	return a, nil
}

func (a *App) connect(ctx context.Context) error {
	base := a.Options.Temporal
	base.Logger = log.NewStructuredLogger(a.Options.Logger)
	if base.HostPort != "" {
		c, err := client.DialContext(ctx, base)
		a.Client = c
		return err
	}
	if !a.Options.Embedded {
		fallback := "the embedded server"
		if !devserver.Included || a.Options.CarrierURL != "" {
			fallback = ""
		}
		c, configured, err := connect.FromEnvironment(base, fallback)
		if err != nil {
			return err
		}
		if configured {
			a.Client = c
			return nil
		}
	}
	if a.Options.CarrierURL != "" {
		return errors.New("no Temporal server is configured: set TEMPORAL_ADDRESS, or a profile in Temporal's configuration file")
	}
	o := a.Options.Server
	o.SearchAttributes = map[string]enums.IndexedValueType{
		probeworkflow.SearchDependency: enums.INDEXED_VALUE_TYPE_KEYWORD,
		probeworkflow.SearchRegion:     enums.INDEXED_VALUE_TYPE_KEYWORD,
		probeworkflow.SearchState:      enums.INDEXED_VALUE_TYPE_KEYWORD,
	}
	// A timer fires late by up to the resolution, so the resolution is scaled too.
	o.TimerResolution = a.Scaled(time.Second)
	var err error
	if a.Server, err = devserver.Start(ctx, o); err != nil {
		return err
	}
	a.Client, err = a.Server.Client(base)
	return err
}

// Stop stops everything that Start started, in reverse order.
func (a *App) Stop() {
	if a.Client != nil {
		a.Client.Close()
	}
	if a.Carrier != nil {
		a.Carrier.Stop()
	}
	if a.Server != nil {
		a.Server.Stop()
	}
}

// Scaled returns d divided by the app's speed.
func (a *App) Scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / a.Options.Speed)
}

// BreakerConfig is the configuration for the carrier and the order database. The
// cooldown and the ramp are shorter than the defaults, to fit into a demonstration.
func (a *App) BreakerConfig() breaker.Config {
	return breaker.Config{
		Window:        a.Scaled(time.Minute),
		Latency:       a.Scaled(cmp.Or(a.Options.Latency, 5*time.Second)),
		Cooldown:      a.Scaled(20 * time.Second),
		MaxCooldown:   a.Scaled(40 * time.Second),
		ProbeInterval: a.Scaled(time.Second),
		RampStep:      a.Scaled(10 * time.Second),
	}
}

// WorkerOptions configure a worker of the app.
type WorkerOptions struct {
	// Unprotected runs the worker without the breaker.
	Unprotected bool
	// OnTransition is called for each transition of each breaker.
	OnTransition func(breaker.Transition)
	// Identity is the worker's name in the Temporal UI. Empty: the SDK's default.
	Identity string
	// Interceptors are added to the worker.
	Interceptors []sdkinterceptor.WorkerInterceptor
}

// Worker is a running worker.
type Worker struct {
	worker.Worker
	// Plugin is nil if the worker is unprotected.
	Plugin *interceptor.Plugin
}

// StartWorker starts a worker with the agent and its tools.
func (a *App) StartWorker(o WorkerOptions) (*Worker, error) {
	options := worker.Options{
		Identity:     o.Identity,
		Interceptors: o.Interceptors,
		// The default of two pollers is too low for a dozen runs at speed 10: tasks
		// wait for a poll.
		MaxConcurrentActivityTaskPollers: 8,
		MaxConcurrentWorkflowTaskPollers: 8,
	}
	w := &Worker{}
	if !o.Unprotected {
		plugin, err := interceptor.NewPlugin(a.Client, interceptor.Config{
			Dependencies: a.dependencies(),
			Region:       agent.HomeRegion,
			OnTransition: o.OnTransition,
			Logger:       log.NewStructuredLogger(a.Options.Logger),
		})
		if err != nil {
			return nil, err
		}
		w.Plugin = plugin
		options.Plugins = []worker.Plugin{plugin}
	}
	w.Worker = worker.New(a.Client, TaskQueue, options)
	agent.Register(w, a.models()...)
	timeout := a.Scaled(30 * time.Second)
	carrierURL := a.Options.CarrierURL
	if carrierURL == "" {
		carrierURL = a.Carrier.URL()
	}
	(&carriertools.Tools{BaseURL: carrierURL, Timeout: timeout}).Register(w)
	(&orders.Tools{BaseURL: carrierURL, Timeout: timeout}).Register(w)
	if err := w.Start(); err != nil {
		return nil, err
	}
	return w, nil
}

func (a *App) dependencies() []interceptor.Dependency {
	tools := []interceptor.Dependency{{
		Name:    carriertools.Dependency,
		Tools:   interceptor.Tools(carriertools.GetDeliveryStatus, carriertools.GetTrackingEvents, carriertools.CreateReturnLabel),
		Region:  agent.Region,
		Breaker: a.BreakerConfig(),
		Probe: interceptor.SyntheticIn(carriertools.GetDeliveryStatus, func(region string) []any {
			return []any{carriertools.Query{TrackingID: "PROBE-0001", Region: region}}
		}),
	}, {
		Name:    orders.Dependency,
		Tools:   interceptor.Tools(orders.LookupOrder),
		Breaker: a.BreakerConfig(),
		Probe:   interceptor.Synthetic(orders.LookupOrder, orders.Query{OrderID: "PROBE-0001"}),
	}}
	return append(tools, a.modelDependencies()...)
}

// Ask starts a run for a ticket and waits for its outcome.
func Ask(ctx context.Context, c client.Client, t agent.Ticket) (agent.Outcome, error) {
	var outcome agent.Outcome
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: "ticket/" + t.ID, TaskQueue: TaskQueue, StaticSummary: t.Question,
	}, agent.WorkflowType, t)
	if err != nil {
		return outcome, err
	}
	err = await(ctx, run, &outcome)
	return outcome, err
}

// pollTimeout bounds one wait for a run's result. The server sometimes does not
// notify a waiting caller, who would then wait for the end of the long poll, up to
// 20 seconds. A caller who asks again gets the result at once.
const pollTimeout = 3 * time.Second

func await(ctx context.Context, run client.WorkflowRun, result any) error {
	for {
		poll, cancel := context.WithTimeout(ctx, pollTimeout)
		err := run.Get(poll, result)
		// The SDK returns this shortly before the deadline.
		var late *serviceerror.DeadlineExceeded
		again := poll.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late)
		cancel()
		if err == nil || !again || ctx.Err() != nil {
			return err
		}
	}
}
