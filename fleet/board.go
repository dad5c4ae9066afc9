package fleet

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
)

const (
	// BoardWorkflow is the board's workflow type.
	BoardWorkflow = "BreakerBoard"
	// BoardID is the one board's workflow ID in its namespace.
	BoardID = "breaker-board"
	// VerdictSignal brings the board one [Entry].
	VerdictSignal = "verdict"
	// WatchUpdate answers with the [Table] once its version is not the one asked
	// with.
	WatchUpdate = "watch"
	// TableQuery answers with the [Table] at once.
	TableQuery = "table"
	// TableMemo is the memo field that holds the [Table] for those who start.
	TableMemo = "breaker-table"

	// closedKept is how many keys that are closed again the table keeps, so that
	// a worker that was away learns of the end of an outage.
	closedKept = 32
	// boardHistory is the history length past which the board continues as new
	// even when the server does not suggest it yet.
	boardHistory = 2000
)

// Entry is one row of the board.
type Entry struct {
	Key     breaker.Key     `json:"key"`
	Verdict breaker.Verdict `json:"verdict"`
}

// Table is the board's content: the newest verdict of each key that is not
// closed, and of those most recently closed.
type Table struct {
	// Version changes with each change of the table, and grows over the board's
	// runs, a terminated and restarted board included.
	Version int64 `json:"version"`
	// Entries are sorted by key.
	Entries []Entry `json:"entries"`
}

// set puts an entry unless the table already holds one of the same epoch or a
// newer one. It tells whether the table changed.
func (t *Table) set(e Entry) bool {
	at := sort.Search(len(t.Entries), func(i int) bool { return t.Entries[i].Key.String() >= e.Key.String() })
	if at < len(t.Entries) && t.Entries[at].Key == e.Key {
		if e.Verdict.Epoch <= t.Entries[at].Verdict.Epoch {
			return false
		}
		t.Entries[at] = e
		return true
	}
	t.Entries = append(t.Entries, Entry{})
	copy(t.Entries[at+1:], t.Entries[at:])
	t.Entries[at] = e
	return true
}

// prune drops the longest closed entries past closedKept.
func (t *Table) prune() {
	for {
		closed, oldest := 0, -1
		for i, e := range t.Entries {
			if e.Verdict.State == breaker.Closed {
				closed++
				if oldest < 0 || e.Verdict.Epoch < t.Entries[oldest].Verdict.Epoch {
					oldest = i
				}
			}
		}
		if closed <= closedKept {
			return
		}
		t.Entries = append(t.Entries[:oldest], t.Entries[oldest+1:]...)
	}
}

// Board is the entity workflow that holds every live verdict. Outage workflows
// signal it on their transitions only; each worker process waits on it with one
// update, all under the same update ID. It runs for ever, continuing as new.
func Board(ctx workflow.Context, table Table) error {
	draining := false
	if err := workflow.SetUpdateHandler(ctx, WatchUpdate, func(ctx workflow.Context, since int64) (Table, error) {
		err := workflow.Await(ctx, func() bool { return table.Version != since || draining })
		return table, err
	}); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, TableQuery, func() (Table, error) { return table, nil }); err != nil {
		return err
	}
	workflow.SetCurrentDetails(ctx, table.markdown())

	signals := workflow.GetSignalChannel(ctx, VerdictSignal)
	receive := func() (changed bool) {
		var e Entry
		for signals.ReceiveAsync(&e) {
			changed = table.set(e) || changed
			e = Entry{}
		}
		return changed
	}
	receive()
	// Each run begins by writing the memo, so that whoever starts finds the
	// running version in it and never replays the answer to an older wait. A
	// version is the time of day, or one more than the last: past every version of
	// a board that was terminated.
	for changed := true; ; {
		if changed {
			table.prune()
			table.Version = max(table.Version+1, workflow.Now(ctx).UnixMilli())
			if err := workflow.UpsertMemo(ctx, map[string]any{TableMemo: table}); err != nil {
				return err
			}
			workflow.SetCurrentDetails(ctx, table.markdown())
		}
		info := workflow.GetInfo(ctx)
		if info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > boardHistory {
			break
		}
		// Unlike Receive, this ends when the board is cancelled, and before it has
		// taken a verdict.
		if err := workflow.Await(ctx, func() bool { return signals.Len() > 0 }); err != nil {
			return err
		}
		changed = receive()
	}
	// Waiters are answered before the run ends, and ask the next run again.
	draining = true
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	receive()
	return workflow.NewContinueAsNewError(ctx, BoardWorkflow, table)
}

func (t Table) markdown() string {
	if len(t.Entries) == 0 {
		return "No outage. Every breaker is **closed**."
	}
	var s strings.Builder
	s.WriteString("| dependency | region | state | since | next | reason |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, e := range t.Entries {
		v := e.Verdict
		next := ""
		if !v.Next.IsZero() {
			next = v.Next.UTC().Format(time.TimeOnly)
		}
		state := v.State.String()
		if v.State == breaker.Recovering {
			state = fmt.Sprintf("%s (%d%%)", state, v.Share)
		}
		fmt.Fprintf(&s, "| %s | %s | **%s** | %s | %s | %s |\n",
			e.Key.Dependency, e.Key.Region, state, v.Since.UTC().Format(time.TimeOnly), next, v.Reason)
	}
	return s.String()
}
