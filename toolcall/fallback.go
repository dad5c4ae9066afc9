package toolcall

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"
)

// Fallback answers in the stead of a tool that cannot be had now; see [Instead],
// [Cached] and [FallbackFunc]. The zero Fallback answers nothing.
type Fallback[T any] struct {
	from   string
	at     time.Time
	answer func(ctx workflow.Context) (value T, ok bool, err error)
}

// Instead is another tool, called with these arguments and the call's own
// activity options: it has a breaker of its own. A model need not know it; see
// [Run.Tools].
func Instead[T any](tool string, args ...any) Fallback[T] {
	return Fallback[T]{from: tool, answer: func(ctx workflow.Context) (T, bool, error) {
		r, err := Call[T]{Tool: tool, Args: args}.execute(ctx)
		return r.Value, r.Answered(), err
	}}
}

// Cached is a value that was right at some time.
func Cached[T any](value T, at time.Time) Fallback[T] {
	return Fallback[T]{from: "cache", at: at, answer: func(workflow.Context) (T, bool, error) { return value, true, nil }}
}

// FallbackFunc is a function of the workflow; name tells the model what answers.
// With an error of f the call ends as it would have without a fallback.
func FallbackFunc[T any](name string, f func(workflow.Context) (T, error)) Fallback[T] {
	return Fallback[T]{from: name, answer: func(ctx workflow.Context) (T, bool, error) {
		value, err := f(ctx)
		if err != nil && ctx.Err() != nil {
			return value, false, err
		}
		return value, err == nil, nil
	}}
}

// StandIn says whose answer a degraded result holds.
type StandIn struct {
	// For is the tool that was asked for, From what answered: another tool, "cache",
	// or the name given to [FallbackFunc].
	For  string `json:"for"`
	From string `json:"from"`
	// Because is how the call itself ended.
	Because Outcome `json:"because"`
	// At is when a cached value was right, zero for other values.
	At time.Time `json:"at,omitzero"`
	// Message goes before the value in what the model reads.
	Message string `json:"message"`
}

// standIn gives r, or what the fallback has in its stead.
func (f Fallback[T]) standIn(ctx workflow.Context, tool string, r Result[T]) (Result[T], error) {
	if f.answer == nil || !r.wanting() {
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
	s.Message = fmt.Sprintf("%s cannot be had now; this is from %s%s in its stead and may be incomplete or out of date:", tool, f.from, when)
	return Result[T]{Value: value, StandIn: s}, nil
}

// wanting tells whether another source may know what the tool could not say now.
// One that answered with an error would get no better answer by another way.
func (r Result[T]) wanting() bool {
	switch r.Outcome() {
	case Refused, RateLimited:
		return true
	case Failed:
		return r.Error.Type == TypeTimeout || r.Error.Type == TypeNoTimeLeft
	}
	return false
}
