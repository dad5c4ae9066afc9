package toolcall

import (
	"encoding/json"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// Run is what a run of an agent knows of its tools. The zero Run knows nothing
// and remembers all the same.
type Run struct {
	// Tools are those that a model may call. A call of any other tool ends in an
	// error of type [TypeUnknownTool], with nothing scheduled: an activity that no
	// worker knows would be retried for ever. A fallback's tool need not be among
	// them. Empty: every name that an activity type can have is taken as it is.
	Tools []string
	// Deadline is how long, from [WithRun] on, the run's tool calls may take
	// together. A call is cut off at it, and after it ends in [TypeNoTimeLeft]. 0: no
	// limit.
	Deadline time.Duration
	// Region takes the region from a call's arguments, as the dependency's own
	// Region does on the worker. Without it, a refusal by a region from the input
	// is remembered for calls of the same tool with the same arguments only.
	Region func(args []any) string
}

// WithRun gives the run a memory: while a dependency that the run was told is
// unavailable is not worth trying again, another call that needs it is answered
// inside the workflow. No task is scheduled and the history grows by nothing; what
// the model reads grows firmer. Call it once, at the beginning of the workflow.
//
// What is remembered comes from the run's own history, so replay decides the
// same. A workflow that already runs needs a workflow.GetVersion around it, and so
// do other Tools, another Deadline and another Region.
func WithRun(ctx workflow.Context, run Run) workflow.Context {
	m := &memory{Run: run}
	if run.Deadline > 0 {
		m.deadline = workflow.Now(ctx).Add(run.Deadline)
	}
	return workflow.WithValue(ctx, memoryKey{}, m)
}

// OnOffer gives those of Run.Tools that are worth offering to a model now: all
// but the ones whose dependency this run was told is unavailable. A tool whose
// region comes from its arguments stays while another region works.
func OnOffer(ctx workflow.Context) []string {
	m := memoryOf(ctx)
	if m == nil {
		return nil
	}
	var offer []string
	for _, tool := range m.Tools {
		if !slices.ContainsFunc(m.refusals, func(r remembered) bool {
			return r.holds(ctx) && r.about(tool) && (r.RegionFrom != RegionFromInput || len(r.Alternatives) == 0)
		}) {
			offer = append(offer, tool)
		}
	}
	return offer
}

type memoryKey struct{}

// memory belongs to one run. Its coroutines take turns, so it needs no lock.
type memory struct {
	Run
	deadline time.Time
	refusals []remembered
}

// maxRemembered bounds a memory whose calls go to ever new regions.
const maxRemembered = 100

// remembered is the last refusal of a dependency and region.
type remembered struct {
	Unavailable
	// queue is the task queue of the call: another one's workers may call another
	// region.
	queue string
	// args are those of the calls that were refused, where nothing else tells their
	// region.
	args []string
}

func memoryOf(ctx workflow.Context) *memory {
	m, _ := ctx.Value(memoryKey{}).(*memory)
	return m
}

// holds tells whether it is still too early to try again.
func (r *remembered) holds(ctx workflow.Context) bool { return workflow.Now(ctx).Before(r.RetryAt) }

func (r *remembered) about(tool string) bool { return tool == r.Tool || slices.Contains(r.Tools, tool) }

// covers tells whether a call goes where r came from.
func (m *memory) covers(r *remembered, queue, tool string, args []any) bool {
	switch {
	case queue != r.queue || !r.about(tool):
		return false
	case r.RegionFrom != RegionFromInput:
		return true
	case len(args) == 0:
		// Nothing tells the region; Get knows no arguments.
		return false
	case m.Region != nil:
		return m.Region(args) == r.Region
	default:
		return tool == r.Tool && slices.Contains(r.args, encoded(args))
	}
}

// recall answers a call from memory: with what is known to be unavailable, or
// with why it comes too late. Both nil: it is to be made.
func (m *memory) recall(ctx workflow.Context, tool string, args []any) (*Unavailable, *ToolError) {
	queue := workflow.GetActivityOptions(ctx).TaskQueue
	for i := range m.refusals {
		if r := &m.refusals[i]; r.holds(ctx) && m.covers(r, queue, tool, args) {
			r.Refusals++
			u := r.again(tool, r.Refusals, workflow.Now(ctx))
			return &u, nil
		}
	}
	if !m.deadline.IsZero() && !workflow.Now(ctx).Before(m.deadline) {
		return nil, &ToolError{Type: TypeNoTimeLeft, Tool: tool,
			Message: tool + " was not called: this run has no time left. Answer with what you have, or escalate."}
	}
	return nil, nil
}

// bounded cuts a call off at the run's deadline.
func (m *memory) bounded(ctx workflow.Context) workflow.Context {
	if m.deadline.IsZero() {
		return ctx
	}
	left := m.deadline.Sub(workflow.Now(ctx))
	if set := workflow.GetActivityOptions(ctx).ScheduleToCloseTimeout; set > 0 {
		left = min(left, set)
	}
	return workflow.WithScheduleToCloseTimeout(ctx, left)
}

// learn remembers a refusal, and forgets what an answer has proven wrong. It gives
// the refusal with the count of those that this run got in a row.
func (m *memory) learn(ctx workflow.Context, tool string, args []any, u *Unavailable, answered bool) *Unavailable {
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
	again := u.again(u.Tool, counted, workflow.Now(ctx))
	return &again
}

// forget drops what was remembered of a key that has recovered.
func (m *memory) forget(key breaker.Key) {
	m.refusals = slices.DeleteFunc(m.refusals, func(r remembered) bool {
		return r.Dependency == key.Dependency && r.Region == key.Region
	})
}

// encoded is how arguments are compared, empty for those that have no JSON form.
func encoded(args []any) string {
	text, err := json.Marshal(args)
	if err != nil || len(args) == 0 {
		return ""
	}
	return string(text)
}
