package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

const (
	// watchDeadline bounds one wait; the next one joins the same update.
	watchDeadline = 2 * time.Minute
	// checkInterval is how often, on average, a watcher that waits reads the memo
	// besides. A wait that the server has refused, being one too many, looks like
	// one that goes on: the SDK tries it again for a minute without a word.
	checkInterval = 15 * time.Second
	// fallbackInterval is how often, on average, a watcher whose wait does not
	// work reads the memo instead.
	fallbackInterval = 5 * time.Second
	// describeDeadline bounds one reading of the memo.
	describeDeadline = 10 * time.Second
)

// Watcher keeps one process in step with the board.
type Watcher struct {
	Client client.Client
	// TaskQueue is where the board's workflow tasks run.
	TaskQueue string
	// Apply takes each table, from one goroutine at a time.
	Apply  func(Table)
	Logger log.Logger
	// DataConverter reads the board's memo, and must be what the client was made
	// with. Default: the SDK's.
	DataConverter converter.DataConverter

	version int64
	// missed says that the memo had the last change before the wait did.
	missed bool
}

// Bootstrap reads the board's memo: what a starting worker must know before its
// first task. It needs no worker to be running. A board that does not exist yet
// means that nothing is open.
func (w *Watcher) Bootstrap(ctx context.Context) error {
	table, found, err := w.read(ctx)
	if found {
		w.take(table)
	}
	return err
}

// read gives the memo's table, if there is one.
func (w *Watcher) read(ctx context.Context) (table Table, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, describeDeadline)
	defer cancel()
	desc, err := w.Client.DescribeWorkflowExecution(ctx, BoardID, "")
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return table, false, nil
	}
	if err != nil {
		return table, false, fmt.Errorf("reading the breaker board: %w", err)
	}
	payload, ok := desc.GetWorkflowExecutionInfo().GetMemo().GetFields()[TableMemo]
	if !ok {
		return table, false, nil
	}
	dc := w.DataConverter
	if dc == nil {
		dc = converter.GetDefaultDataConverter()
	}
	if err := dc.FromPayload(payload, &table); err != nil {
		return table, false, fmt.Errorf("reading the breaker board's memo: %w", err)
	}
	return table, true, nil
}

// Run waits on the board until ctx is done. All watchers of a version share one
// update, so a change costs the board the same whatever their number.
func (w *Watcher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		table, err := w.wait(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && table.Version != w.version:
			w.take(table)
		case err == nil:
			// The board is about to continue as new and let its waiters go.
			pause(ctx, 200*time.Millisecond)
		case errors.Is(err, errQuiet):
		default:
			w.Logger.Debug("Waiting on the breaker board failed; reading its memo instead.", "error", err)
			pause(ctx, fallbackInterval)
			if err := w.Bootstrap(ctx); err != nil && ctx.Err() == nil {
				w.Logger.Warn("The breaker board is out of reach; breakers go on alone.", "error", err)
			}
		}
	}
}

func (w *Watcher) take(t Table) {
	w.version = t.Version
	w.Apply(t)
}

// errQuiet says that a whole wait has passed without a change.
var errQuiet = errors.New("nothing has changed")

// wait gives the board's next table, by the wait or by the memo, whichever has it
// first.
func (w *Watcher) wait(ctx context.Context) (Table, error) {
	type answer struct {
		table Table
		err   error
	}
	answers, news := make(chan answer, 1), make(chan Table, 1)
	interval := checkInterval
	if w.missed {
		interval = fallbackInterval
	}
	ctx, cancel := context.WithTimeout(ctx, watchDeadline)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		table, err := w.ask(ctx)
		answers <- answer{table, err}
	})
	running.Go(func() { w.check(ctx, interval, news) })
	select {
	case a := <-answers:
		// The SDK's own error for a wait that ran out does not unwrap to the context's.
		if a.err != nil && ctx.Err() != nil {
			a.err = errQuiet
		}
		w.missed = w.missed && a.err != nil
		return a.table, a.err
	case table := <-news:
		cancel()
		if a := <-answers; a.err == nil && a.table.Version >= table.Version {
			return a.table, nil // It was on its way.
		}
		w.missed = true
		return table, nil
	}
}

// check reads the memo every interval or so until it holds something new.
func (w *Watcher) check(ctx context.Context, interval time.Duration, news chan<- Table) {
	for {
		pause(ctx, interval)
		if ctx.Err() != nil {
			return
		}
		// What is wrong where it cannot be read, the wait will say.
		if table, found, err := w.read(ctx); err == nil && found && table.Version > w.version {
			news <- table
			return
		}
	}
}

// ask waits on the board, which it starts where none runs.
func (w *Watcher) ask(ctx context.Context) (Table, error) {
	table, err := w.update(ctx)
	if !isOver(err) {
		return table, err
	}
	if err := StartBoard(ctx, w.Client, w.TaskQueue); err != nil {
		return table, err
	}
	return w.update(ctx)
}

// isOver tells whether the board did not run, or ended under the wait. A board
// that was terminated goes on giving the latter answer to the update it knows.
func isOver(err error) bool {
	var notFound *serviceerror.NotFound
	var ended *temporal.ApplicationError
	return errors.As(err, &notFound) || errors.As(err, &ended) && ended.Type() == endedUnderUpdate
}

// endedUnderUpdate is the server's error type for an update that its workflow
// accepted and did not live to complete.
const endedUnderUpdate = "AcceptedUpdateCompletedWorkflow"

func (w *Watcher) update(ctx context.Context) (Table, error) {
	var table Table
	handle, err := w.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID:   BoardID,
		UpdateID:     fmt.Sprintf("%s-%d", WatchUpdate, w.version),
		UpdateName:   WatchUpdate,
		Args:         []any{w.version},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return table, err
	}
	err = handle.Get(ctx, &table)
	return table, err
}

// StartBoard makes sure that the board runs.
func StartBoard(ctx context.Context, c client.Client, taskQueue string) error {
	_, err := c.ExecuteWorkflow(ctx, BoardOptions(taskQueue), BoardWorkflow, BoardInput{})
	return err
}

// BoardOptions are the start options of the board.
func BoardOptions(taskQueue string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       BoardID,
		TaskQueue:                taskQueue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "Breaker board: every live verdict",
	}
}

// pause waits for about d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(about(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// about is half of d to one and a half of it.
func about(d time.Duration) time.Duration {
	return d/2 + time.Duration(rand.Int64N(int64(d)))
}
