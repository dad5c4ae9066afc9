package agent

import (
	"encoding/json"

	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

const (
	// maxCalls bounds the calls of one turn; what a model wants beyond is dropped.
	maxCalls = 8
	// maxText bounds what the transcript holds of one call's arguments, and of its
	// answer: every turn sends all of it to the model again, and Temporal refuses an
	// activity's input of 2 MiB.
	maxText = 4 << 10
	// maxToolName is the longest name that the API of a model knows.
	maxToolName = 64
)

// toolbox calls tools. It holds what they answered in this run, to stand in for
// one that cannot be had when the model asks the same again.
type toolbox map[string]toolcall.Fallback[json.RawMessage]

// call makes the calls of one turn side by side, and gives what the model reads
// of each. Only a call that is the same as one before it waits for that one: is
// it refused, the run knows the answer to both.
func (known toolbox) call(ctx workflow.Context, wanted []Call) ([]Message, error) {
	wanted = fitting(wanted)
	messages := make([]Message, len(wanted))
	first, again := distinct(wanted)
	for _, wave := range [][]int{first, again} {
		var calls []toolcall.Call[json.RawMessage]
		for _, i := range wave {
			w := wanted[i]
			calls = append(calls, toolcall.Call[json.RawMessage]{Tool: w.Tool, Args: []any{w.Args}, Fallback: known[w.key()]})
		}
		results, err := toolcall.ExecuteAll(ctx, calls...)
		if err != nil {
			return nil, err
		}
		for j, r := range results {
			w := wanted[wave[j]]
			if r.Outcome() == toolcall.OK {
				known[w.key()] = toolcall.Cached(r.Value, workflow.Now(ctx))
			}
			messages[wave[j]] = Message{Call: w, Text: shortened(r.ForModel(), maxText), Outcome: string(r.Outcome())}
		}
	}
	return messages, nil
}

// fitting is what a model wants as far as a transcript can hold it. Arguments
// that it cannot hold are dropped, and the call answered as one without any.
func fitting(wanted []Call) []Call {
	wanted = wanted[:min(len(wanted), maxCalls)]
	for i, w := range wanted {
		if wanted[i].Tool = shortened(w.Tool, maxToolName); len(w.Args) > maxText {
			wanted[i].Args = nil
		}
	}
	return wanted
}

// distinct gives the places of calls that are like none before them, and of the
// others.
func distinct(calls []Call) (first, again []int) {
	seen := map[string]bool{}
	for i, c := range calls {
		if seen[c.key()] {
			again = append(again, i)
		} else {
			first = append(first, i)
		}
		seen[c.key()] = true
	}
	return first, again
}

func (c Call) key() string { return c.Tool + " " + string(c.Args) }
