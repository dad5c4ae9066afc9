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

// DefaultTaskQueue is the task queue of outage, probe and board workflows.
const DefaultTaskQueue = toolcall.ControlTaskQueue

// Config is what a plugin guards.
type Config struct {
	// Region is the region whose dependencies this worker calls, for every
	// dependency that does not take it from its tools' input.
	Region string
	// Dependencies are what can be down. At least one.
	Dependencies []Dependency
	// TaskQueue is where the breaker's own workflows run; every worker of a fleet
	// names the same. Default [DefaultTaskQueue].
	TaskQueue string
	// Control is the client of the namespace, or the cluster, in which the breaker's
	// own workflows run, so that several namespaces share a verdict. It must have the
	// same DataConverter as the tools' client. Default: the tools' client.
	Control client.Client
	// OnTransition is told each edge of each breaker of this process, in order,
	// off the path of any call. Optional.
	OnTransition func(breaker.Transition)
	// DataConverter encodes the arguments of synthetic calls and reads what is open,
	// and must be what the client was made with. Default: the SDK's.
	DataConverter converter.DataConverter
	// Logger defaults to slog's default logger.
	Logger log.Logger
	// Clock defaults to the machine's. For tests.
	Clock breaker.Clock
}

// Dependency is one thing that can be down, the tools that need it, and how it
// is judged and probed.
type Dependency struct {
	// Name is part of keys and workflow IDs: "carrier-api".
	Name string
	// Tools are the activity types that call this dependency; see [Tools]. They
	// share one breaker a region.
	Tools []string
	// Region takes the region from a call's arguments; see [RegionOf]. Default:
	// Config.Region for every call.
	Region func(args []any) string
	// Breaker is how outcomes are judged. Zero values mean defaults.
	Breaker breaker.Config
	// Probe is how recovery is found: [Synthetic], [SyntheticIn], or an outright
	// [NoProbe].
	Probe Probe
	// Classify says what an outcome means for the dependency, before the rules of
	// [Classify] do; it returns false to leave it to them. See [ByErrorType] and
	// [ByResult]. One that panics makes the outcome [breaker.Ignored]. Optional.
	Classify Classifier
	// WhenOpen is what a refused call ends in. Default: [Refuse].
	WhenOpen WhenOpen
	// Required: there is no going on without this dependency. The model is told to
	// wait or to stop, not to proceed.
	Required bool
	// Wording replaces what a model is told of a refusal; under 500 bytes. Without
	// it, or where it gives nothing fit, the standard text serves. Optional.
	Wording func(toolcall.Unavailable) string
}

// WhenOpen is what a refused call ends in.
type WhenOpen int

const (
	// Refuse ends the activity at once with what a model can act on.
	Refuse WhenOpen = iota
	// Wait lets Temporal try again when it is worth it, for batch work that nobody
	// waits for. Where no attempt or no time is left for that, it is Refuse.
	Wait
)

// Tools names the activity types of a dependency.
func Tools(activityTypes ...string) []string { return activityTypes }

// RegionOf takes the region from the first argument of type T. Calls without
// one belong to Config.Region. A workflow that hands a model's arguments on as
// they came can use the same function for toolcall's Run.Region: where no
// argument is a T, it is the first json.RawMessage that can be read as one.
func RegionOf[T any](region func(T) string) func(args []any) string {
	return func(args []any) string {
		for _, arg := range args {
			if t, ok := arg.(T); ok {
				return region(t)
			}
		}
		for _, arg := range args {
			raw, ok := arg.(json.RawMessage)
			// Where T is a pointer, null would make it nil.
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

// Probe is a synthetic call: an activity registered on a worker of this plugin,
// be it one of the tools, called for nobody, or one written to probe.
type Probe struct {
	activity string
	args     func(region string) []any
	none     bool
}

// Synthetic probes by calling an activity with these arguments in every region.
// Use a real tool: a health endpoint that answers while the API is broken
// closes the breaker into a dead dependency.
func Synthetic(activityType string, args ...any) Probe {
	return Probe{activity: activityType, args: func(string) []any { return args }}
}

// SyntheticIn is [Synthetic] with arguments that depend on the region.
func SyntheticIn(activityType string, args func(region string) []any) Probe {
	return Probe{activity: activityType, args: args}
}

// NoProbe says outright that a dependency has no synthetic call: after the
// cooldown the first customers' calls of the ramp find out.
func NoProbe() Probe { return Probe{none: true} }

// maxToolLength keeps what a model is told of a refusal short; models themselves
// take no longer names.
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

// validate names every mistake, each with its field. Defaults are set.
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
			wrong(at+".Probe", "is missing; use Synthetic with a real tool and arguments that harm nobody, or NoProbe() to do without")
		case d.Probe.args == nil:
			wrong(at+".Probe", "SyntheticIn needs a function that gives the arguments")
		case taken:
			wrong(at+".Probe", "%s already probes %s; how it ends is judged by one dependency's rules", d.Probe.activity, other)
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

// dependencyField is how messages name a dependency of the configuration.
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

// tick is how often time alone is looked at: a twentieth of the shortest latency
// threshold, so that a hanging call is found no later than that.
func (c Config) tick() time.Duration {
	tick := 250 * time.Millisecond
	for _, d := range c.Dependencies {
		tick = min(tick, d.Breaker.WithDefaults().Latency/20)
	}
	return max(tick, 10*time.Millisecond)
}
