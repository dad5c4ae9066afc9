package toolcall

import (
	"encoding/json"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// Run configures the memory of one agent run. The zero Run has no list of tools and no
// deadline, and remembers refusals.
type Run struct {
	// Tools are the tools that the model may call. A call of any other tool ends in an
	// error of type [TypeUnknownTool] and schedules nothing, because Temporal would retry
	// an activity that no worker has without end. A fallback's tool need not be listed.
	// Empty: any valid activity type may be called.
	Tools []string
	// Deadline limits the time of all tool calls of the run together, counted from
	// [WithRun]. A call in progress is cut off. Later calls end in [TypeNoTimeLeft].
	// 0: no limit.
	Deadline time.Duration
	// Region returns the region of a call from its arguments, like Dependency.Region on
	// the worker. It must be deterministic. Without it, a refusal whose region comes from
	// the input is remembered only for the same tool with the same arguments.
	Region func(args []any) string
}

// WithRun returns a context in which the run remembers refusals. Until a refused
// dependency is worth trying again, further calls that need it are answered inside the
// workflow: nothing is scheduled, the history does not grow, and the text for the model
// becomes firmer. Call it once, at the beginning of the workflow.
//
// The memory is built from the run's own history, so a replay decides the same. Adding
// WithRun to workflows that are already running needs a workflow.GetVersion, and so
// does a change of Tools, Deadline or Region.
func WithRun(ctx workflow.Context, run Run) workflow.Context {
	m := &memory{Run: run}
	if run.Deadline > 0 {
		m.deadline = workflow.Now(ctx).Add(run.Deadline)
	}
	return workflow.WithValue(ctx, memoryKey{}, m)
}

// AvailableTools returns those of [Run.Tools] that are worth calling now, for the next
// prompt. It leaves out the tools whose dependency has refused this run. A tool whose
// region comes from its arguments is kept while another region works.
func AvailableTools(ctx workflow.Context) []string {
	m := memoryOf(ctx)
	if m == nil {
		return nil
	}
	var tools []string
	for _, tool := range m.Tools {
		if !slices.ContainsFunc(m.refusals, func(r remembered) bool {
			return r.active(ctx) && r.includes(tool) && (r.RegionFrom != RegionFromInput || len(r.Alternatives) == 0)
		}) {
			tools = append(tools, tool)
		}
	}
	return tools
}

type memoryKey struct{}

// memory belongs to one run. It needs no lock: workflow coroutines run one at a time.
type memory struct {
	Run
	deadline time.Time
	refusals []remembered
}

// maxRemembered limits the memory of a run whose calls name many regions.
const maxRemembered = 100

// remembered is the last refusal of a dependency and region.
type remembered struct {
	Unavailable
	// queue is the task queue of the call. Workers of another task queue may call another
	// region.
	queue string
	// args are the arguments of the refused calls, when only they identify the region.
	args []string
}

func memoryOf(ctx workflow.Context) *memory {
	m, _ := ctx.Value(memoryKey{}).(*memory)
	return m
}

// active reports whether it is too early to try again.
func (r *remembered) active(ctx workflow.Context) bool { return workflow.Now(ctx).Before(r.RetryAt) }

func (r *remembered) includes(tool string) bool {
	return tool == r.Tool || slices.Contains(r.Tools, tool)
}

// covers reports whether a call has the dependency and region of r.
func (m *memory) covers(r *remembered, queue, tool string, args []any) bool {
	switch {
	case queue != r.queue || !r.includes(tool):
		return false
	case r.RegionFrom != RegionFromInput:
		return true
	case len(args) == 0:
		// The region is unknown, for example because Get has no arguments.
		return false
	case m.Region != nil:
		return m.Region(args) == r.Region
	default:
		return tool == r.Tool && slices.Contains(r.args, encoded(args))
	}
}

// lookup answers a call from memory: the dependency is unavailable, or the deadline has
// passed. Both results nil: make the call.
func (m *memory) lookup(ctx workflow.Context, tool string, args []any) (*Unavailable, *ToolError) {
	queue := workflow.GetActivityOptions(ctx).TaskQueue
	for i := range m.refusals {
		if r := &m.refusals[i]; r.active(ctx) && m.covers(r, queue, tool, args) {
			r.Refusals++
			u := r.repeated(tool, r.Refusals, workflow.Now(ctx))
			return &u, nil
		}
	}
	if !m.deadline.IsZero() && !workflow.Now(ctx).Before(m.deadline) {
		return nil, &ToolError{Type: TypeNoTimeLeft, Tool: tool,
			Message: tool + " was not called: this run has no time left. Answer with what you have, or escalate."}
	}
	return nil, nil
}

// limited limits a call to the run's deadline.
func (m *memory) limited(ctx workflow.Context) workflow.Context {
	if m.deadline.IsZero() {
		return ctx
	}
	left := m.deadline.Sub(workflow.Now(ctx))
	if set := workflow.GetActivityOptions(ctx).ScheduleToCloseTimeout; set > 0 {
		left = min(left, set)
	}
	return workflow.WithScheduleToCloseTimeout(ctx, left)
}

// record remembers a refusal, or forgets those that an answer has disproved. It returns
// the refusal with the number of consecutive ones in this run.
func (m *memory) record(ctx workflow.Context, tool string, args []any, u *Unavailable, answered bool) *Unavailable {
	queue := workflow.GetActivityOptions(ctx).TaskQueue
	if u == nil {
		if answered {
			m.refusals = slices.DeleteFunc(m.refusals, func(r remembered) bool { return m.covers(&r, queue, tool, args) })
		}
		return nil
	}
	i := slices.IndexFunc(m.refusals, func(r remembered) bool {
		return r.Dependency == u.Dependency && r.Region == u.Region && r.queue == queue
	})
	if i < 0 {
		if len(m.refusals) == maxRemembered {
			m.refusals = slices.Delete(m.refusals, 0, 1)
		}
		i = len(m.refusals)
		m.refusals = append(m.refusals, remembered{queue: queue})
	}
	r := &m.refusals[i]
	if r.Tool != u.Tool {
		r.args = nil
	}
	if text := encoded(args); u.RegionFrom == RegionFromInput && m.Region == nil && text != "" {
		r.args = append(r.args[max(0, len(r.args)-maxRemembered+1):], text)
	}
	counted := max(u.Refusals, r.Refusals+1)
	r.Unavailable, r.Refusals = *u, counted
	if counted == u.Refusals {
		return u
	}
	repeated := u.repeated(u.Tool, counted, workflow.Now(ctx))
	return &repeated
}

// forget drops the refusals of a key that has recovered.
func (m *memory) forget(key breaker.Key) {
	m.refusals = slices.DeleteFunc(m.refusals, func(r remembered) bool {
		return r.Dependency == key.Dependency && r.Region == key.Region
	})
}

// encoded returns arguments in a form that can be compared, empty if they have no JSON
// form.
func encoded(args []any) string {
	text, err := json.Marshal(args)
	if err != nil || len(args) == 0 {
		return ""
	}
	return string(text)
}
