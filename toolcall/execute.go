package toolcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Execute calls the activity named tool with the activity options of ctx and
// waits for it. The result always holds something a model can read; the error
// is not nil only when the run itself is over: it was cancelled.
func Execute[T any](ctx workflow.Context, tool string, args ...any) (Result[T], error) {
	return Get[T](ctx, tool, workflow.ExecuteActivity(ctx, tool, args...))
}

// Get is the second half of [Execute], for a workflow that starts several
// activities before it waits for the first.
func Get[T any](ctx workflow.Context, tool string, future workflow.Future) (Result[T], error) {
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
		if app.Type() == DependencyUnavailable {
			var u Unavailable
			if app.HasDetails() && app.Details(&u) == nil && u.Code == CodeUnavailable {
				return Result[T]{Unavailable: &u}, nil
			}
		}
		// What errors.New makes has no type.
		if app.Type() != "" {
			return toolError[T](tool, app.Type(), fmt.Sprintf("%s failed (%s).", tool, app.Type())), nil
		}
	case temporal.IsCanceledError(err):
		// This call's own. A cancellation beneath an application error is one that
		// the tool met elsewhere and failed on.
		return Result[T]{}, err
	case errors.As(err, &timeout):
		return toolError[T](tool, "Timeout", fmt.Sprintf("%s did not answer in time.", tool)), nil
	}
	return toolError[T](tool, "Error", fmt.Sprintf("%s failed.", tool)), nil
}

func unreadable[T any](tool string) Result[T] {
	return toolError[T](tool, "UnreadableResult", fmt.Sprintf("%s answered with something that cannot be read.", tool))
}

func toolError[T any](tool, kind, message string) Result[T] {
	return Result[T]{Error: &ToolError{Type: kind, Tool: tool, Message: message}}
}
