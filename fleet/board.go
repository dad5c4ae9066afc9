package fleet

import (
	"fmt"
	"slices"
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
	// AskSignal brings the board one [Question].
	AskSignal = "ask"
	// WhisperSignal brings the board one [Whisper].
	WhisperSignal = "whisper"
	// SuspectActivity is the activity by which the board has a key suspected: its
	// argument is the [breaker.Key].
	SuspectActivity = "BreakerSuspect"
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
	// maxWhispered bounds the keys that whispers are counted for.
	maxWhispered = 1000
	// maxQuestions bounds the questions that stand at a time.
	maxQuestions = 1000
	// boardHistory is the history length past which the board continues as new
	// even when the server does not suggest it yet.
	boardHistory = 2000
)

// Entry is one row of the board.
type Entry struct {
	Key     breaker.Key     `json:"key"`
	Verdict breaker.Verdict `json:"verdict"`
	// Dismissed: a suspicion came to nothing. Alone are the workers that are in
	// trouble although the dependency is not.
	Dismissed bool     `json:"dismissed,omitempty"`
	Alone     []string `json:"alone,omitempty"`
	// OneIn is of how many workers one reports on the ramp; see [Drawn].
	OneIn int `json:"one_in,omitempty"`
}

// Table is the board's content: the newest verdict of each key that is not
// closed, and of those most recently closed.
type Table struct {
	// Version changes with each change of the table, and grows over the board's
	// runs, a terminated and restarted board included.
	Version int64 `json:"version"`
	// Entries are sorted by key.
	Entries []Entry `json:"entries"`
	// Questions are those that wait for answers, at most one a key.
	Questions []Question `json:"questions,omitempty"`
}

// ask puts a question, in the place of an older one about its key. It tells
// whether the table changed.
func (t *Table) ask(q Question) bool {
	if q.Key.Validate() != nil {
		return false
	}
	for _, e := range t.Entries {
		if e.Key == q.Key && e.Verdict.Epoch >= q.Round {
			return false
		}
	}
	for i := range t.Questions {
		if t.Questions[i].Key == q.Key {
			if q.Round <= t.Questions[i].Round {
				return false
			}
			t.Questions[i] = q
			return true
		}
	}
	if len(t.Questions) >= maxQuestions {
		return false
	}
	t.Questions = append(t.Questions, q)
	return true
}

// set puts an entry, and takes away the question that it answers, unless the
// table already holds an entry of the same epoch or a newer one. It tells whether
// the table changed.
func (t *Table) set(e Entry) bool {
	if !t.put(e) {
		return false
	}
	t.Questions = slices.DeleteFunc(t.Questions, func(q Question) bool {
		return q.Key == e.Key && q.Round < e.Verdict.Epoch
	})
	return true
}

func (t *Table) put(e Entry) bool {
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

// prune drops the longest closed entries past closedKept, and questions that
// nobody waits for any more.
func (t *Table) prune(now time.Time) {
	t.Questions = slices.DeleteFunc(t.Questions, func(q Question) bool { return !now.Before(q.Until) })
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

// BoardInput starts the board, or its next run.
type BoardInput struct {
	Table
	// Whispers are counted by key.
	Whispers map[string]*Whispers `json:"whispers,omitempty"`
}

// board is the state of one run.
type board struct {
	BoardInput
	verdicts, questions, whispered workflow.ReceiveChannel
	// draining: waiters are answered before the run ends.
	draining bool
	// suspecting counts the suspicions on their way.
	suspecting int
}

// Board is the entity workflow that holds every live verdict. Outage workflows
// signal it on their transitions only; each worker process waits on it with one
// update, all under the same update ID. It runs for ever, continuing as new.
func Board(ctx workflow.Context, in BoardInput) error {
	b := &board{
		BoardInput: in,
		verdicts:   workflow.GetSignalChannel(ctx, VerdictSignal),
		questions:  workflow.GetSignalChannel(ctx, AskSignal),
		whispered:  workflow.GetSignalChannel(ctx, WhisperSignal),
	}
	if b.Whispers == nil {
		b.Whispers = map[string]*Whispers{}
	}
	if err := workflow.SetUpdateHandler(ctx, WatchUpdate, func(ctx workflow.Context, since int64) (Table, error) {
		err := workflow.Await(ctx, func() bool { return b.Version != since || b.draining })
		return b.Table, err
	}); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, TableQuery, func() (Table, error) { return b.Table, nil }); err != nil {
		return err
	}
	workflow.SetCurrentDetails(ctx, b.markdown())
	b.receive(ctx)
	// Each run begins by writing the memo, so that whoever starts finds the
	// running version in it and never replays the answer to an older wait. A
	// version is the time of day, or one more than the last: past every version of
	// a board that was terminated.
	for changed := true; ; {
		if changed {
			b.prune(workflow.Now(ctx))
			b.Version = max(b.Version+1, workflow.Now(ctx).UnixMilli())
			if err := workflow.UpsertMemo(ctx, map[string]any{TableMemo: b.Table}); err != nil {
				return err
			}
			workflow.SetCurrentDetails(ctx, b.markdown())
		}
		info := workflow.GetInfo(ctx)
		if info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > boardHistory {
			break
		}
		// Unlike Receive, this ends when the board is cancelled, and before it has
		// taken a signal.
		if err := workflow.Await(ctx, func() bool {
			return b.verdicts.Len()+b.questions.Len()+b.whispered.Len() > 0
		}); err != nil {
			return err
		}
		changed = b.receive(ctx)
	}
	// Waiters are answered before the run ends, and ask the next run again.
	b.draining = true
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) && b.suspecting == 0 }); err != nil {
		return err
	}
	b.receive(ctx)
	return workflow.NewContinueAsNewError(ctx, BoardWorkflow, b.BoardInput)
}

// receive takes every signal that has arrived, and tells whether the table
// changed.
func (b *board) receive(ctx workflow.Context) (changed bool) {
	now := workflow.Now(ctx)
	for e := (Entry{}); b.verdicts.ReceiveAsync(&e); e = (Entry{}) {
		if !b.set(e) {
			continue
		}
		changed = true
		switch w := b.Whispers[e.Key.String()]; {
		case w == nil:
		case e.Dismissed:
			w.Dismissed(now)
		case e.Verdict.State == breaker.Open:
			w.Convicted()
		}
	}
	for q := (Question{}); b.questions.ReceiveAsync(&q); q = (Question{}) {
		changed = b.ask(q) || changed
	}
	for w := (Whisper{}); b.whispered.ReceiveAsync(&w); w = (Whisper{}) {
		if b.hear(w.Key, now) {
			b.suspecting++
			workflow.Go(ctx, func(ctx workflow.Context) { b.suspect(ctx, w.Key) })
		}
	}
	return changed
}

// hear counts a whisper and tells whether they are a suspicion now.
func (b *board) hear(key breaker.Key, now time.Time) bool {
	if key.Validate() != nil {
		return false
	}
	for _, e := range b.Entries {
		if e.Key == key && e.Verdict.State != breaker.Closed {
			return false
		}
	}
	w := b.Whispers[key.String()]
	if w == nil {
		if len(b.Whispers) >= maxWhispered {
			for _, k := range workflow.DeterministicKeys(b.Whispers) {
				if b.Whispers[k].silent(now) {
					delete(b.Whispers, k)
				}
			}
		}
		if len(b.Whispers) >= maxWhispered {
			return false
		}
		w = &Whispers{}
		b.Whispers[key.String()] = w
	}
	return w.Hear(now) && !slices.ContainsFunc(b.Questions, func(q Question) bool { return q.Key == key })
}

// suspect has an outage of key started. Any process that knows the dependency
// can do it.
func (b *board) suspect(ctx workflow.Context, key breaker.Key) {
	defer func() { b.suspecting-- }()
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    5 * time.Second,
		ScheduleToCloseTimeout: 10 * time.Second,
		Summary:                "suspect " + key.String(),
	})
	// The next whispers try again.
	_ = workflow.ExecuteActivity(ctx, SuspectActivity, key).Get(ctx, nil)
}

func (t Table) markdown() string {
	if len(t.Entries)+len(t.Questions) == 0 {
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
		reason := v.Reason.String()
		if len(e.Alone) > 0 {
			reason = "in trouble alone: " + strings.Join(e.Alone, ", ")
		}
		since := ""
		if !v.Since.IsZero() {
			since = v.Since.UTC().Format(time.TimeOnly)
		}
		fmt.Fprintf(&s, "| %s | %s | **%s** | %s | %s | %s |\n", e.Key.Dependency, e.Key.Region, state, since, next, reason)
	}
	for _, q := range t.Questions {
		fmt.Fprintf(&s, "| %s | %s | **suspected** | | | asking one worker in %d |\n", q.Key.Dependency, q.Key.Region, max(q.OneIn, 1))
	}
	return s.String()
}
