package app

import (
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

// TaskQueue is where the agent's workflows and tools run.
const TaskQueue = "support-agent"

// Options configure an App. The zero value runs at real pace on an embedded
// server in memory.
type Options struct {
	// Speed divides every duration of the example: the carrier's work, timeouts,
	// the breaker's thresholds and cooldowns. Zero: 1.
	Speed float64
	// Server configures the embedded Temporal server.
	Server devserver.Options
	// Embedded uses the embedded server whatever the environment configures.
	Embedded bool
	// CarrierAddr is where the carrier listens. Empty: a free port of 127.0.0.1.
	CarrierAddr string
	// CarrierURL is a carrier that runs already. The app then starts none, and no
	// server either: the environment must configure one.
	CarrierURL string
	// Models are the agent's, best first, at the OpenAI-compatible endpoint that the
	// environment configures (OPENAI_BASE_URL, OPENAI_API_KEY). Empty: the scripted
	// one, which needs no provider.
	Models []string
	// Logger takes what the SDK logs. Nil: nothing is logged.
	Logger *slog.Logger
}

// App is a running example. Stop it with Stop.
type App struct {
	Options Options
	Client  client.Client
	// Server is the embedded Temporal server; nil where the environment's is used.
	Server  *devserver.Server
	Carrier *carrier.Server
}

// CheckSpeed tells whether the example can run at a speed.
func CheckSpeed(speed float64) error {
	if !(speed >= 0.1 && speed <= 100) {
		return fmt.Errorf("speed: %v is out of range; from 0.1 to 100", speed)
	}
	return nil
}

// Start starts the server and the carrier, and connects. It starts no worker.
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
	base := client.Options{Logger: log.NewStructuredLogger(a.Options.Logger)}
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
		return errors.New("no Temporal server is configured; set TEMPORAL_ADDRESS, or a profile of Temporal's configuration file")
	}
	o := a.Options.Server
	o.SearchAttributes = map[string]enums.IndexedValueType{
		probeworkflow.SearchDependency: enums.INDEXED_VALUE_TYPE_KEYWORD,
		probeworkflow.SearchRegion:     enums.INDEXED_VALUE_TYPE_KEYWORD,
		probeworkflow.SearchState:      enums.INDEXED_VALUE_TYPE_KEYWORD,
	}
	// A timer of the server is late by up to its resolution: that is scaled too.
	o.TimerResolution = a.Scaled(time.Second)
	var err error
	if a.Server, err = devserver.Start(ctx, o); err != nil {
		return err
	}
	a.Client, err = a.Server.Client(base)
	return err
}

// Stop ends everything that Start started, in the reverse order.
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

// Scaled is a duration of the story as it is at this app's speed.
func (a *App) Scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / a.Options.Speed)
}

// BreakerConfig is the carrier's and the order database's breaker: the defaults,
// but for a cooldown and a ramp that fit into a demonstration.
func (a *App) BreakerConfig() breaker.Config {
	return breaker.Config{
		Window:        a.Scaled(time.Minute),
		Latency:       a.Scaled(5 * time.Second),
		Cooldown:      a.Scaled(20 * time.Second),
		MaxCooldown:   a.Scaled(40 * time.Second),
		ProbeInterval: a.Scaled(time.Second),
		RampStep:      a.Scaled(10 * time.Second),
	}
}

// WorkerOptions configure a worker of the app.
type WorkerOptions struct {
	// Unprotected leaves the breaker out.
	Unprotected bool
	// OnTransition is told each edge of each breaker.
	OnTransition func(breaker.Transition)
	// Identity is the worker's in the Temporal UI. Empty: the SDK's.
	Identity string
	// Interceptors are put on the worker besides.
	Interceptors []sdkinterceptor.WorkerInterceptor
}

// Worker is a running worker.
type Worker struct {
	worker.Worker
	// Plugin is nil on an unprotected worker.
	Plugin *interceptor.Plugin
}

// StartWorker starts a worker with the agent and its tools.
func (a *App) StartWorker(o WorkerOptions) (*Worker, error) {
	options := worker.Options{
		Identity:     o.Identity,
		Interceptors: o.Interceptors,
		// With the default of two pollers each, tasks of a dozen runs at speed 10
		// wait for a poll rather than for a slot.
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
	// Thirty seconds to time out, as the story has it.
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

// Ask starts a run for a ticket and waits for its end.
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

// pollFor bounds one wait for a run's end. The server may miss to tell a waiter
// of it, and would then answer only when its own long poll is over, up to twenty
// seconds later; one who asks again is answered at once.
const pollFor = 3 * time.Second

func await(ctx context.Context, run client.WorkflowRun, result any) error {
	for {
		poll, cancel := context.WithTimeout(ctx, pollFor)
		err := run.Get(poll, result)
		// The SDK gives up shortly before a deadline that its next call could not meet.
		var late *serviceerror.DeadlineExceeded
		again := poll.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &late)
		cancel()
		if err == nil || !again || ctx.Err() != nil {
			return err
		}
	}
}
