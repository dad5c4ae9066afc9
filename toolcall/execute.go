package toolcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Execute calls the activity named tool with the activity options of ctx and
// waits for it. The result always holds something a model can read; the error
// is not nil only when the run itself is over: it was cancelled.
//
// A model's own call, a name and JSON, is Execute[json.RawMessage] with the
// arguments as one json.RawMessage.
func Execute[T any](ctx workflow.Context, tool string, args ...any) (Result[T], error) {
	return Call[T]{Tool: tool, Args: args}.Execute(ctx)
}

// Call is one call of a tool, for what [Execute] has no room for.
type Call[T any] struct {
	// Tool is the activity type.
	Tool string
	Args []any
	// Options default to the activity options of the context.
	Options *workflow.ActivityOptions
	// Fallback answers when the tool is refused, rate-limited or out of time.
	Fallback Fallback[T]
}

// Execute is the function [Execute] for this call.
func (c Call[T]) Execute(ctx workflow.Context) (Result[T], error) {
	if c.Options != nil {
		ctx = workflow.WithActivityOptions(ctx, *c.Options)
	}
	if e := unknown(ctx, c.Tool); e != nil {
		return Result[T]{Error: e}, nil
	}
	r, err := c.execute(ctx)
	if err != nil {
		return r, err
	}
	return c.Fallback.standIn(ctx, c.Tool, r)
}

// execute is without what only a model can get wrong about a name, and without
// the fallback.
func (c Call[T]) execute(ctx workflow.Context) (Result[T], error) {
	if e := invalid(c.Tool, c.Args); e != nil {
		return Result[T]{Error: e}, nil
	}
	m := memoryOf(ctx)
	if m == nil {
		return get[T](ctx, c.Tool, workflow.ExecuteActivity(ctx, c.Tool, c.Args...))
	}
	if u, e := m.recall(ctx, c.Tool, c.Args); u != nil || e != nil {
		return Result[T]{Unavailable: u, Error: e}, nil
	}
	future := workflow.ExecuteActivity(m.bounded(ctx), c.Tool, c.Args...)
	r, err := get[T](ctx, c.Tool, future)
	if err == nil {
		r.Unavailable = m.learn(ctx, c.Tool, c.Args, r.Unavailable, r.Outcome() == OK)
	}
	return r, err
}

// ExecuteAll makes the calls of one turn side by side. Each has its own result,
// in the order of the calls; one that is refused leaves the others alone.
func ExecuteAll[T any](ctx workflow.Context, calls ...Call[T]) ([]Result[T], error) {
	results, errs := make([]Result[T], len(calls)), make([]error, len(calls))
	group := workflow.NewWaitGroup(ctx)
	for i, call := range calls {
		group.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer group.Done()
			results[i], errs[i] = call.Execute(ctx)
		})
	}
	group.Wait(ctx)
	return results, errors.Join(errs...)
}

// Get is the second half of [Execute], for a workflow that starts several
// activities before it waits for the first. Its context has the activity options
// with which the call was made: a run's memory keeps task queues apart.
func Get[T any](ctx workflow.Context, tool string, future workflow.Future) (Result[T], error) {
	r, err := get[T](ctx, tool, future)
	if m := memoryOf(ctx); m != nil && err == nil {
		r.Unavailable = m.learn(ctx, tool, nil, r.Unavailable, r.Outcome() == OK)
	}
	return r, err
}

func get[T any](ctx workflow.Context, tool string, future workflow.Future) (Result[T], error) {
	var raw converter.RawValue
	if err := future.Get(ctx, &raw); err != nil {
		return failed[T](ctx, tool, err)
	}
	if isToolResult(raw.Payload()) {
		var r Result[T]
		if err := future.Get(ctx, &r); err != nil {
			return unreadable[T](tool), nil
		}
		return r, nil
	}
	var r Result[T]
	if err := future.Get(ctx, &r.Value); err != nil {
		return unreadable[T](tool), nil
	}
	return r, nil
}

// maxArguments bounds what a model can send: past its own limit the server fails
// the whole run.
const maxArguments = 1 << 20

// invalid tells what is wrong with arguments that a model made up.
func invalid(tool string, args []any) *ToolError {
	size := 0
	for _, arg := range args {
		raw, ok := arg.(json.RawMessage)
		if !ok {
			continue
		}
		if !json.Valid(raw) {
			return &ToolError{Type: TypeInvalidArguments, Tool: named(tool), Message: fmt.Sprintf(
				"%s was not called: its arguments are not valid JSON. Call it again with a JSON object.", named(tool))}
		}
		// As they are sent: encoding makes six bytes of each <, > and &.
		sent, err := json.Marshal(raw)
		if size += len(sent); err != nil || size > maxArguments {
			return &ToolError{Type: TypeInvalidArguments, Tool: named(tool), Message: fmt.Sprintf(
				"%s was not called: its arguments are larger than %d bytes.", named(tool), maxArguments)}
		}
	}
	return nil
}

// maxTool bounds an activity type, as the server does: a longer one fails the
// whole run, as does one that is not UTF-8.
const maxTool = 1000

// unknown tells that a call names no tool, or one that a model made up.
func unknown(ctx workflow.Context, tool string) *ToolError {
	if tool == "" {
		return &ToolError{Type: TypeUnknownTool, Message: "No tool was called: the call names none."}
	}
	var known []string
	if m := memoryOf(ctx); m != nil {
		known = m.Tools
	}
	if slices.Contains(known, tool) || len(known) == 0 && len(tool) <= maxTool && utf8.ValidString(tool) {
		return nil
	}
	message := fmt.Sprintf("There is no tool %s.", named(tool))
	if all := " Tools: " + strings.Join(known, ", ") + "."; len(known) > 0 && len(message)+len(all) < maxMessage {
		message += all
	}
	return &ToolError{Type: TypeUnknownTool, Tool: named(tool), Message: message}
}

// isToolResult tells a Result's payload from a plain value's by the member
// that only a Result has.
func isToolResult(p *commonpb.Payload) bool {
	if string(p.GetMetadata()[converter.MetadataEncoding]) != converter.MetadataEncodingJSON ||
		!bytes.Contains(p.GetData(), []byte(`"toolbreaker"`)) {
		return false
	}
	var w struct {
		Outcome Outcome `json:"toolbreaker"`
	}
	return json.Unmarshal(p.GetData(), &w) == nil && w.Outcome != ""
}

func failed[T any](ctx workflow.Context, tool string, err error) (Result[T], error) {
	if ctx.Err() != nil {
		return Result[T]{}, err
	}
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case errors.As(err, &app):
		switch app.Type() {
		case DependencyUnavailable:
			var u Unavailable
			if app.HasDetails() && app.Details(&u) == nil && u.Code == CodeUnavailable {
				return Result[T]{Unavailable: &u}, nil
			}
		case DependencyRateLimited, "TooManyRequests":
			var l RateLimit
			if !app.HasDetails() || app.Details(&l) != nil || l.Message == "" {
				l = NewRateLimit(tool, 0, workflow.Now(ctx))
			}
			return Result[T]{Limit: &l}, nil
		case "":
			// What errors.New makes has no type.
			return toolError[T](tool, TypeError, tool+" failed."), nil
		}
		return toolError[T](tool, app.Type(), fmt.Sprintf("%s failed (%s).", tool, app.Type())), nil
	case temporal.IsCanceledError(err):
		// This call's own. A cancellation beneath an application error is one that
		// the tool met elsewhere and failed on.
		return Result[T]{}, err
	case errors.As(err, &timeout):
		return toolError[T](tool, TypeTimeout, tool+" did not answer in time."), nil
	}
	return toolError[T](tool, TypeError, tool+" failed."), nil
}

func unreadable[T any](tool string) Result[T] {
	return toolError[T](tool, TypeUnreadableResult, tool+" answered with something that cannot be read.")
}

func toolError[T any](tool, kind, message string) Result[T] {
	return Result[T]{Error: &ToolError{Type: kind, Tool: tool, Message: message}}
}
