package interceptor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// DefaultTaskQueue is the task queue of the outage, probe and board workflows.
const DefaultTaskQueue = toolcall.ControlTaskQueue

// Config lists what a plugin guards, and how it reaches the fleet.
type Config struct {
	// Region is the region of the calls of this worker, for each dependency without a
	// Region function.
	Region string
	// Dependencies are the guarded dependencies. At least one is needed.
	Dependencies []Dependency
	// TaskQueue is the task queue of the breaker's own workflows. All workers of a fleet
	// must use the same. Default: [DefaultTaskQueue].
	TaskQueue string
	// Control is the client of the namespace or cluster of the breaker's own workflows,
	// so that several namespaces can share verdicts. It must have the DataConverter of
	// the tools' client. Default: the tools' client.
	Control client.Client
	// OnTransition is called for each transition of each breaker of this process, in
	// order and from one goroutine, outside of any call. Optional.
	OnTransition func(breaker.Transition)
	// DataConverter encodes the arguments of synthetic calls and decodes the board. It
	// must be the one of the client. Default: the SDK's.
	DataConverter converter.DataConverter
	// Logger is used for the plugin's log lines. Default: slog's default logger.
	Logger log.Logger
	// Clock replaces the system clock, for tests. Default: breaker.SystemClock.
	Clock breaker.Clock
}

// Dependency is one service that can be down, with the tools that call it.
type Dependency struct {
	// Name is part of keys and workflow IDs, such as "carrier-api".
	Name string
	// Tools are the activity types that call this dependency; see [Tools]. They share one
	// breaker per region.
	Tools []string
	// Region returns the region of a call from its arguments; see [RegionOf].
	// Default: Config.Region for each call.
	Region func(args []any) string
	// Breaker configures the rules. Zero values mean defaults.
	Breaker breaker.Config
	// Probe is the synthetic call that detects recovery: [Synthetic], [SyntheticIn], or
	// [NoProbe]. It has no default.
	Probe Probe
	// Classify decides how an outcome counts, before the function [Classify]. It returns
	// false to leave the decision to that. See [ByErrorType] and [ByResult]. If it
	// panics the outcome is [breaker.Ignored]. Optional.
	Classify Classifier
	// WhenOpen is how a refused call ends. Default: [Refuse].
	WhenOpen WhenOpen
	// Required: a run cannot go on without this dependency. The model is told to wait or
	// to stop.
	Required bool
	// Wording returns the text for the model, under 500 bytes, instead of the standard
	// text. If it returns nothing usable, the standard text is used. Optional.
	Wording func(toolcall.Unavailable) string
}

// WhenOpen is how a refused call ends.
type WhenOpen int

const (
	// Refuse ends the activity at once with a text for the model.
	Refuse WhenOpen = iota
	// Wait makes Temporal retry the call when the dependency may have recovered. It is
	// for batch work. A call without a remaining attempt or time is refused.
	Wait
)

// Tools lists the activity types of a dependency.
func Tools(activityTypes ...string) []string { return activityTypes }

// RegionOf makes a Region function from one that takes a tool's argument of type T. It
// uses the first argument that is a T, or else the first json.RawMessage that decodes to
// a T. So the same function can be used for toolcall's Run.Region, where the arguments
// are a model's JSON. A call without either belongs to Config.Region.
func RegionOf[T any](region func(T) string) func(args []any) string {
	return func(args []any) string {
		for _, arg := range args {
			if t, ok := arg.(T); ok {
				return region(t)
			}
		}
		for _, arg := range args {
			raw, ok := arg.(json.RawMessage)
			// null would decode to a nil pointer.
			if !ok || string(bytes.TrimSpace(raw)) == "null" {
				continue
			}
			var t T
			if json.Unmarshal(raw, &t) == nil {
				return region(t)
			}
		}
		return ""
	}
}

// Probe is a synthetic call of an activity that a worker of this plugin has registered:
// one of the tools, or an activity written as a probe.
type Probe struct {
	activity string
	args     func(region string) []any
	none     bool
}

// Synthetic probes by calling an activity with these arguments in each region. Use a real
// tool with harmless arguments. A health endpoint that answers while the API is broken
// would close the breaker too early.
func Synthetic(activityType string, args ...any) Probe {
	return Probe{activity: activityType, args: func(string) []any { return args }}
}

// SyntheticIn is [Synthetic] with arguments that depend on the region.
func SyntheticIn(activityType string, args func(region string) []any) Probe {
	return Probe{activity: activityType, args: args}
}

// NoProbe is for a dependency without a synthetic call. After the cooldown, the first
// customers' calls of the ramp show whether it has recovered.
func NoProbe() Probe { return Probe{none: true} }

// maxToolLength limits the name of a tool, in bytes. Model providers do not accept
// longer ones.
const maxToolLength = 100

func (c Config) withDefaults() Config {
	if c.TaskQueue == "" {
		c.TaskQueue = DefaultTaskQueue
	}
	if c.DataConverter == nil {
		c.DataConverter = converter.GetDefaultDataConverter()
	}
	if c.Logger == nil {
		c.Logger = defaultLogger()
	}
	if c.Clock == nil {
		c.Clock = breaker.SystemClock()
	}
	return c
}

// validate returns every mistake with its field. c has its defaults.
func (c Config) validate() error {
	var errs []error
	wrong := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{field}, args...)...))
	}
	if len(c.Dependencies) == 0 {
		wrong("Dependencies", "at least one is needed")
	}
	regionNeeded := slices.ContainsFunc(c.Dependencies, func(d Dependency) bool { return d.Region == nil })
	if c.Region != "" || regionNeeded {
		if err := breaker.ValidateName(c.Region); err != nil {
			wrong("Region", "%v (or set Region on each dependency)", err)
		}
	}
	names, owner, prober := map[string]bool{}, map[string]string{}, map[string]string{}
	for i, d := range c.Dependencies {
		at := dependencyField(i, d.Name)
		if err := breaker.ValidateName(d.Name); err != nil {
			wrong(at+".Name", "%v", err)
		} else if names[d.Name] {
			wrong(at+".Name", "another dependency has the same name")
		}
		names[d.Name] = true
		if d.WhenOpen != Refuse && d.WhenOpen != Wait {
			wrong(at+".WhenOpen", "%d is not one of Refuse, Wait", d.WhenOpen)
		}
		if len(d.Tools) == 0 {
			wrong(at+".Tools", "at least one activity type is needed")
		}
		for j, tool := range d.Tools {
			switch other, taken := owner[tool]; {
			case tool == "":
				wrong(fmt.Sprintf("%s.Tools[%d]", at, j), "must not be empty")
			case len(tool) > maxToolLength:
				wrong(fmt.Sprintf("%s.Tools[%d]", at, j), "is %d bytes long; at most %d are allowed", len(tool), maxToolLength)
			case taken:
				wrong(fmt.Sprintf("%s.Tools[%d]", at, j), "%s already belongs to %s; a tool has one dependency", tool, other)
			default:
				owner[tool] = d.Name
			}
		}
		switch other, taken := prober[d.Probe.activity]; {
		case d.Probe.none:
		case d.Probe.activity == "":
			wrong(at+".Probe", "is missing; use Synthetic with a real tool and harmless arguments, or NoProbe()")
		case d.Probe.args == nil:
			wrong(at+".Probe", "SyntheticIn needs a function that returns the arguments")
		case taken:
			wrong(at+".Probe", "%s is already the probe of %s; an activity can be the probe of one dependency only", d.Probe.activity, other)
		default:
			prober[d.Probe.activity] = d.Name
			if d.Region == nil {
				if _, err := probeworkflow.EncodeArgs(c.DataConverter, d.Probe.args(c.Region)); err != nil {
					wrong(at+".Probe", "its arguments cannot be encoded: %v", err)
				}
			}
		}
		if err := d.Breaker.Validate(); err != nil {
			for _, line := range unjoin(err) {
				wrong(at+".Breaker", "%v", line)
			}
		}
	}
	return errors.Join(errs...)
}

// dependencyField is the name of a dependency in messages.
func dependencyField(i int, name string) string {
	if name == "" {
		return fmt.Sprintf("Dependencies[%d]", i)
	}
	return fmt.Sprintf("Dependencies[%d] (%s)", i, name)
}

func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// tick is the interval of the breakers' ticks: a twentieth of the shortest latency
// threshold, because a hanging call is found at a tick.
func (c Config) tick() time.Duration {
	tick := 250 * time.Millisecond
	for _, d := range c.Dependencies {
		tick = min(tick, d.Breaker.WithDefaults().Latency/20)
	}
	return max(tick, 10*time.Millisecond)
}
