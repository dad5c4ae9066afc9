package toolcall

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"
)

// Fallback is another source for a call whose tool is not available. Make one with
// [Instead], [Cached] or [FallbackFunc]. The zero Fallback is none.
type Fallback[T any] struct {
	from   string
	at     time.Time
	answer func(ctx workflow.Context) (value T, ok bool, err error)
}

// Instead calls another tool with these arguments and the activity options of the
// call. The other tool has a breaker of its own. It need not be in [Run.Tools].
func Instead[T any](tool string, args ...any) Fallback[T] {
	return Fallback[T]{from: tool, answer: func(ctx workflow.Context) (T, bool, error) {
		r, err := Call[T]{Tool: tool, Args: args}.execute(ctx)
		return r.Value, r.Answered(), err
	}}
}

// Cached answers with a value that was valid at a past time.
func Cached[T any](value T, at time.Time) Fallback[T] {
	return Fallback[T]{from: "cache", at: at, answer: func(workflow.Context) (T, bool, error) { return value, true, nil }}
}

// FallbackFunc answers with a function of the workflow. The model reads name as the
// source of the answer. If f fails, the call ends as it would without a fallback.
func FallbackFunc[T any](name string, f func(workflow.Context) (T, error)) Fallback[T] {
	return Fallback[T]{from: name, answer: func(ctx workflow.Context) (T, bool, error) {
		value, err := f(ctx)
		if err != nil && ctx.Err() != nil {
			return value, false, err
		}
		return value, err == nil, nil
	}}
}

// StandIn describes the fallback of a result with the outcome [Degraded].
type StandIn struct {
	// For is the tool that was called. From is the source of the answer: another tool,
	// "cache", or the name given to [FallbackFunc].
	For  string `json:"for"`
	From string `json:"from"`
	// Because is the outcome of the call itself.
	Because Outcome `json:"because"`
	// At is when a cached value was valid, zero for other values.
	At time.Time `json:"at,omitzero"`
	// Message precedes the value in what the model reads.
	Message string `json:"message"`
}

// apply returns r, or the answer of the fallback instead.
func (f Fallback[T]) apply(ctx workflow.Context, tool string, r Result[T]) (Result[T], error) {
	if f.answer == nil || !r.needsFallback() {
		return r, nil
	}
	value, ok, err := f.answer(ctx)
	if err != nil || !ok {
		return r, err
	}
	s := &StandIn{For: tool, From: f.from, Because: r.Outcome(), At: f.at}
	when := ""
	if !f.at.IsZero() {
		when = " of " + f.at.UTC().Format("2006-01-02 15:04 UTC")
	}
	s.Message = fmt.Sprintf("%s is not available now. This answer is from %s%s instead, and may be incomplete or out of date:", tool, f.from, when)
	return Result[T]{Value: value, StandIn: s}, nil
}

// needsFallback reports whether another source may help. It does not if the tool
// answered with an error.
func (r Result[T]) needsFallback() bool {
	switch r.Outcome() {
	case Refused, RateLimited:
		return true
	case Failed:
		return r.Error.Type == TypeTimeout || r.Error.Type == TypeNoTimeLeft
	}
	return false
}
