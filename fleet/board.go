package fleet

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
)

const (
	// BoardWorkflow is the board's workflow type.
	BoardWorkflow = "BreakerBoard"
	// BoardID is the one board's workflow ID in its namespace.
	BoardID = "breaker-board"
	// VerdictSignal carries one [Entry] to the board.
	VerdictSignal = "verdict"
	// PollSignal carries one [Poll] to the board.
	PollSignal = "poll"
	// HintSignal carries one [Hint] to the board.
	HintSignal = "hint"
	// SuspectActivity starts the outage workflow of a key with many hints. Its
	// argument is the [breaker.Key].
	SuspectActivity = "BreakerSuspect"
	// WatchUpdate takes a version and returns the [Table] once its version is another
	// one.
	WatchUpdate = "watch"
	// TableQuery returns the [Table].
	TableQuery = "table"
	// TableMemo is the memo field that holds the [Table] for starting processes.
	TableMemo = "breaker-table"

	// maxHintedKeys bounds the number of keys with a hint counter.
	maxHintedKeys = 1000
	// boardHistory is the history length past which the board continues as new, even
	// if the server does not suggest it yet.
	boardHistory = 2000
)

// BoardInput is the input of each run of the board.
type BoardInput struct {
	Table
	// Hints holds the hint counter of each key.
	Hints map[string]*HintCounter `json:"hints,omitempty"`
}

// board is the state of one run.
type board struct {
	BoardInput
	verdicts, polls, hints workflow.ReceiveChannel
	// draining: the run is about to end, and waiting updates are answered.
	draining bool
	// suspecting counts the suspect activities in progress.
	suspecting int
}

// Board is the workflow that holds every live verdict. A namespace has one. Outage
// workflows signal each change of state to it. Each worker process waits on it with
// one update, and processes that know the same version share the update ID. It
// never completes, and continues as new.
func Board(ctx workflow.Context, in BoardInput) error {
	b := &board{
		BoardInput: in,
		verdicts:   workflow.GetSignalChannel(ctx, VerdictSignal),
		polls:      workflow.GetSignalChannel(ctx, PollSignal),
		hints:      workflow.GetSignalChannel(ctx, HintSignal),
	}
	if b.Hints == nil {
		b.Hints = map[string]*HintCounter{}
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
	// Each run writes the memo first. So a starting process finds the run's version in
	// it, and does not join an update that has been answered already. A version is the
	// time in milliseconds, or one more than the last. So it is greater than every
	// version of a terminated board.
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
		// Unlike Receive, Await also ends when the board is cancelled, and consumes no
		// signal.
		if err := workflow.Await(ctx, func() bool {
			return b.verdicts.Len()+b.polls.Len()+b.hints.Len() > 0
		}); err != nil {
			return err
		}
		changed = b.receive(ctx)
	}
	// Waiting updates are answered before the run ends. Their senders then wait on
	// the next run.
	b.draining = true
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) && b.suspecting == 0 }); err != nil {
		return err
	}
	b.receive(ctx)
	return workflow.NewContinueAsNewError(ctx, BoardWorkflow, b.BoardInput)
}

// receive handles every signal that has arrived, and returns whether the table
// changed.
func (b *board) receive(ctx workflow.Context) (changed bool) {
	now := workflow.Now(ctx)
	for e := (Entry{}); b.verdicts.ReceiveAsync(&e); e = (Entry{}) {
		if !b.set(e) {
			continue
		}
		changed = true
		switch counter := b.Hints[e.Key.String()]; {
		case counter == nil:
		case e.Dismissed:
			counter.Dismissed(now)
		case e.Verdict.State == breaker.Open:
			counter.Confirmed()
		}
	}
	for p := (Poll{}); b.polls.ReceiveAsync(&p); p = (Poll{}) {
		changed = b.open(p) || changed
	}
	for h := (Hint{}); b.hints.ReceiveAsync(&h); h = (Hint{}) {
		if b.addHint(h.Key, now) {
			b.suspecting++
			workflow.Go(ctx, func(ctx workflow.Context) { b.suspect(ctx, h.Key) })
		}
	}
	return changed
}

// addHint counts a hint and returns whether it raises a suspicion.
func (b *board) addHint(key breaker.Key, now time.Time) bool {
	if key.Validate() != nil {
		return false
	}
	for _, e := range b.Entries {
		if e.Key == key && e.Verdict.State != breaker.Closed {
			return false
		}
	}
	counter := b.Hints[key.String()]
	if counter == nil {
		if len(b.Hints) >= maxHintedKeys {
			for _, k := range workflow.DeterministicKeys(b.Hints) {
				if b.Hints[k].isEmpty(now) {
					delete(b.Hints, k)
				}
			}
		}
		if len(b.Hints) >= maxHintedKeys {
			return false
		}
		counter = &HintCounter{}
		b.Hints[key.String()] = counter
	}
	return counter.Add(now) && !slices.ContainsFunc(b.Polls, func(p Poll) bool { return p.Key == key })
}

// suspect starts the outage workflow of key. The activity runs on any process that
// knows the dependency. When it fails, the next hints raise the suspicion again.
func (b *board) suspect(ctx workflow.Context, key breaker.Key) {
	defer func() { b.suspecting-- }()
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    5 * time.Second,
		ScheduleToCloseTimeout: 10 * time.Second,
		Summary:                "suspect " + key.String(),
	})
	_ = workflow.ExecuteActivity(ctx, SuspectActivity, key).Get(ctx, nil)
}
