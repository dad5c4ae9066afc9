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

// Execute calls the activity named tool with the activity options of ctx and waits
// for it. The result always has a text for the model. The error is not nil only when
// the run itself is over, because it was cancelled.
//
// For a call that a model made, a name and JSON, use Execute[json.RawMessage] and
// pass the arguments as one json.RawMessage.
func Execute[T any](ctx workflow.Context, tool string, args ...any) (Result[T], error) {
	return Call[T]{Tool: tool, Args: args}.Execute(ctx)
}

// Call is one call of a tool, with options that [Execute] does not have.
type Call[T any] struct {
	// Tool is the activity type. Args are its arguments.
	Tool string
	Args []any
	// Options replaces the activity options of the context. nil: those are used.
	Options *workflow.ActivityOptions
	// Fallback answers when the tool is refused, rate-limited or out of time. The zero
	// Fallback does not.
	Fallback Fallback[T]
}

// Execute makes the call, like the function [Execute].
func (c Call[T]) Execute(ctx workflow.Context) (Result[T], error) {
	if c.Options != nil {
		ctx = workflow.WithActivityOptions(ctx, *c.Options)
	}
	if e := checkName(ctx, c.Tool); e != nil {
		return Result[T]{Error: e}, nil
	}
	r, err := c.execute(ctx)
	if err != nil {
		return r, err
	}
	return c.Fallback.apply(ctx, c.Tool, r)
}

// execute makes the call without the check of the tool's name and without the
// fallback.
func (c Call[T]) execute(ctx workflow.Context) (Result[T], error) {
	if e := checkArguments(c.Tool, c.Args); e != nil {
		return Result[T]{Error: e}, nil
	}
	m := memoryOf(ctx)
	if m == nil {
		return get[T](ctx, c.Tool, workflow.ExecuteActivity(ctx, c.Tool, c.Args...))
	}
	if u, e := m.lookup(ctx, c.Tool, c.Args); u != nil || e != nil {
		return Result[T]{Unavailable: u, Error: e}, nil
	}
	future := workflow.ExecuteActivity(m.limited(ctx), c.Tool, c.Args...)
	r, err := get[T](ctx, c.Tool, future)
	if err == nil {
		r.Unavailable = m.record(ctx, c.Tool, c.Args, r.Unavailable, r.Outcome() == OK)
	}
	return r, err
}

// ExecuteAll makes the calls of one turn in parallel and waits for all of them. The
// results are in the order of the calls. A refused call does not affect the others.
// The error joins those of all calls; see [Execute].
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

// Get waits for an activity that the workflow has started, and returns its result
// like [Execute]. Use it to start several activities before waiting for the first.
// Its context must have the activity options of the call, because a run remembers
// refusals per task queue.
func Get[T any](ctx workflow.Context, tool string, future workflow.Future) (Result[T], error) {
	r, err := get[T](ctx, tool, future)
	if m := memoryOf(ctx); m != nil && err == nil {
		r.Unavailable = m.record(ctx, tool, nil, r.Unavailable, r.Outcome() == OK)
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

// maxArguments limits what a model can send, in bytes. Beyond its own limit the server
// fails the whole run.
const maxArguments = 1 << 20

// checkArguments returns what is wrong with arguments that a model made.
func checkArguments(tool string, args []any) *ToolError {
	size := 0
	for _, arg := range args {
		raw, ok := arg.(json.RawMessage)
		if !ok {
			continue
		}
		if !json.Valid(raw) {
			return &ToolError{Type: TypeInvalidArguments, Tool: shortName(tool), Message: fmt.Sprintf(
				"%s was not called: its arguments are not valid JSON. Call it again with a JSON object.", shortName(tool))}
		}
		// Encoding makes six bytes of each <, > and &.
		sent, err := json.Marshal(raw)
		if size += len(sent); err != nil || size > maxArguments {
			return &ToolError{Type: TypeInvalidArguments, Tool: shortName(tool), Message: fmt.Sprintf(
				"%s was not called: its arguments are larger than %d bytes.", shortName(tool), maxArguments)}
		}
	}
	return nil
}

// maxTool limits an activity type, in bytes. The server fails the whole run over a
// longer one, and over one that is not UTF-8.
const maxTool = 1000

// checkName returns an error for a call without a tool name or with an unknown one.
func checkName(ctx workflow.Context, tool string) *ToolError {
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
	message := fmt.Sprintf("There is no tool %s.", shortName(tool))
	if all := " Tools: " + strings.Join(known, ", ") + "."; len(known) > 0 && len(message)+len(all) < maxMessage {
		message += all
	}
	return &ToolError{Type: TypeUnknownTool, Tool: shortName(tool), Message: message}
}

// isToolResult reports whether a payload is a Result: only a Result has the member
// "toolbreaker" with an outcome.
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
			// An error made by errors.New has no type.
			return toolError[T](tool, TypeError, tool+" failed."), nil
		}
		return toolError[T](tool, app.Type(), fmt.Sprintf("%s failed (%s).", tool, app.Type())), nil
	case temporal.IsCanceledError(err):
		// The call itself was cancelled. A cancellation beneath an application error is a
		// failure of the tool.
		return Result[T]{}, err
	case errors.As(err, &timeout):
		return toolError[T](tool, TypeTimeout, tool+" did not answer in time."), nil
	}
	return toolError[T](tool, TypeError, tool+" failed."), nil
}

func unreadable[T any](tool string) Result[T] {
	return toolError[T](tool, TypeUnreadableResult, tool+" returned a result that cannot be read.")
}

func toolError[T any](tool, kind, message string) Result[T] {
	return Result[T]{Error: &ToolError{Type: kind, Tool: tool, Message: message}}
}
