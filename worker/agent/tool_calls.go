package agent

import (
	"encoding/json"

	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

const (
	// maxCalls bounds the calls of one turn. Further calls are dropped.
	maxCalls = 8
	// maxText bounds one call's arguments and its result in the transcript. Every
	// turn sends the whole transcript, and Temporal refuses inputs of 2 MiB.
	maxText = 4 << 10
	// maxToolName is the longest function name that the API accepts.
	maxToolName = 64
)

// resultCache holds the tools' results of this run by call. A cached result is used
// if the same call is refused later.
type resultCache map[string]toolcall.Fallback[json.RawMessage]

// execute makes the calls of one turn in parallel and returns their results. A
// duplicate waits for the first call, so a refused call is scheduled once.
func (cache resultCache) execute(ctx workflow.Context, requested []Call) ([]Message, error) {
	requested = limited(requested)
	messages := make([]Message, len(requested))
	first, duplicates := splitDuplicates(requested)
	for _, round := range [][]int{first, duplicates} {
		var calls []toolcall.Call[json.RawMessage]
		for _, i := range round {
			c := requested[i]
			calls = append(calls, toolcall.Call[json.RawMessage]{Tool: c.Tool, Args: []any{c.Args}, Fallback: cache[c.key()]})
		}
		results, err := toolcall.ExecuteAll(ctx, calls...)
		if err != nil {
			return nil, err
		}
		for j, r := range results {
			c := requested[round[j]]
			if r.Outcome() == toolcall.OK {
				cache[c.key()] = toolcall.Cached(r.Value, workflow.Now(ctx))
			}
			messages[round[j]] = Message{Call: c, Text: truncate(r.ForModel(), maxText), Outcome: string(r.Outcome())}
		}
	}
	return messages, nil
}

// limited bounds the calls to the transcript's limits. Arguments that are too long
// are dropped, and the call then ends in an error.
func limited(calls []Call) []Call {
	calls = calls[:min(len(calls), maxCalls)]
	for i, c := range calls {
		if calls[i].Tool = truncate(c.Tool, maxToolName); len(c.Args) > maxText {
			calls[i].Args = nil
		}
	}
	return calls
}

// splitDuplicates returns the indexes of the calls that differ from all calls before
// them, and the indexes of the others.
func splitDuplicates(calls []Call) (first, duplicates []int) {
	seen := map[string]bool{}
	for i, c := range calls {
		if seen[c.key()] {
			duplicates = append(duplicates, i)
		} else {
			first = append(first, i)
		}
		seen[c.key()] = true
	}
	return first, duplicates
}

func (c Call) key() string { return c.Tool + " " + string(c.Args) }
