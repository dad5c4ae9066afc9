package member

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

	"github.com/toolbreaker/toolbreaker/fleet"
)

const (
	// watchDeadline bounds one wait. The next one joins the same update.
	watchDeadline = 2 * time.Minute
	// checkInterval is the average interval at which a waiting watcher also reads the
	// memo. A server at its limit refuses the wait, and the SDK retries it for a
	// minute without an error.
	checkInterval = 15 * time.Second
	// fallbackInterval is the average interval at which the memo is read while waiting
	// fails.
	fallbackInterval = 5 * time.Second
	// describeDeadline bounds one read of the memo.
	describeDeadline = 10 * time.Second
)

// Watcher passes each new table of the board to one process. Call
// [Watcher.Bootstrap] first, then [Watcher.Run], not concurrently.
type Watcher struct {
	Client client.Client
	// TaskQueue is the task queue of the board.
	TaskQueue string
	// Apply takes each table. It is called from one goroutine at a time.
	Apply  func(fleet.Table)
	Logger log.Logger
	// DataConverter decodes the board's memo. It must be the one of the client.
	// Default: the SDK's.
	DataConverter converter.DataConverter

	version int64
	// missed: the memo showed the last change, and the wait did not.
	missed bool
}

// Bootstrap reads the board's memo, so that a starting worker knows which keys are
// open before its first task. This needs no running worker. Without a board, no key
// is open.
func (w *Watcher) Bootstrap(ctx context.Context) error {
	table, found, err := w.read(ctx)
	if found {
		w.take(table)
	}
	return err
}

// read returns the table in the memo, if there is one.
func (w *Watcher) read(ctx context.Context) (table fleet.Table, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, describeDeadline)
	defer cancel()
	desc, err := w.Client.DescribeWorkflowExecution(ctx, fleet.BoardID, "")
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return table, false, nil
	}
	if err != nil {
		return table, false, fmt.Errorf("reading the breaker board: %w", err)
	}
	payload, ok := desc.GetWorkflowExecutionInfo().GetMemo().GetFields()[fleet.TableMemo]
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
// update, so the cost of a change on the board does not depend on their number.
func (w *Watcher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		table, err := w.wait(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && table.Version != w.version:
			w.take(table)
		case err == nil:
			// The board is about to continue as new and has answered its waiting updates.
			pause(ctx, 200*time.Millisecond)
		case errors.Is(err, errQuiet):
		default:
			w.Logger.Debug("Waiting on the breaker board failed. Reading its memo instead.", "error", err)
			pause(ctx, fallbackInterval)
			if err := w.Bootstrap(ctx); err != nil && ctx.Err() == nil {
				w.Logger.Warn("The breaker board is out of reach. Breakers of this process decide by themselves until it answers.", "error", err)
			}
		}
	}
}

func (w *Watcher) take(t fleet.Table) {
	w.version = t.Version
	w.Apply(t)
}

// errQuiet ends a wait in which the table did not change.
var errQuiet = errors.New("nothing has changed")

// wait returns the board's next table, from the update or the memo, whichever shows
// it first.
func (w *Watcher) wait(ctx context.Context) (fleet.Table, error) {
	type answer struct {
		table fleet.Table
		err   error
	}
	answers, changes := make(chan answer, 1), make(chan fleet.Table, 1)
	interval := checkInterval
	if w.missed {
		interval = fallbackInterval
	}
	ctx, cancel := context.WithTimeout(ctx, watchDeadline)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		table, err := w.await(ctx)
		answers <- answer{table, err}
	})
	running.Go(func() { w.check(ctx, interval, changes) })
	select {
	case a := <-answers:
		// The SDK's error for an expired wait does not unwrap to the context's.
		if a.err != nil && ctx.Err() != nil {
			a.err = errQuiet
		}
		w.missed = w.missed && a.err != nil
		return a.table, a.err
	case table := <-changes:
		cancel()
		if a := <-answers; a.err == nil && a.table.Version >= table.Version {
			return a.table, nil
		}
		w.missed = true
		return table, nil
	}
}

// check reads the memo about once per interval until it shows a new version.
func (w *Watcher) check(ctx context.Context, interval time.Duration, changes chan<- fleet.Table) {
	for {
		pause(ctx, interval)
		if ctx.Err() != nil {
			return
		}
		// The wait reports an error of the connection.
		if table, found, err := w.read(ctx); err == nil && found && table.Version > w.version {
			changes <- table
			return
		}
	}
}

// await waits on the board, and starts it if none runs.
func (w *Watcher) await(ctx context.Context) (fleet.Table, error) {
	table, err := w.update(ctx)
	if !isOver(err) {
		return table, err
	}
	if err := StartBoard(ctx, w.Client, w.TaskQueue); err != nil {
		return table, err
	}
	return w.update(ctx)
}

// isOver returns whether no board runs, or whether it ended during the wait. The
// server keeps returning the latter error for an update that a terminated board had
// accepted.
func isOver(err error) bool {
	var notFound *serviceerror.NotFound
	var ended *temporal.ApplicationError
	return errors.As(err, &notFound) || errors.As(err, &ended) && ended.Type() == endedUnderUpdate
}

// endedUnderUpdate is the server's error type for an accepted update whose workflow
// ended before completing it.
const endedUnderUpdate = "AcceptedUpdateCompletedWorkflow"

func (w *Watcher) update(ctx context.Context) (fleet.Table, error) {
	var table fleet.Table
	handle, err := w.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID:   fleet.BoardID,
		UpdateID:     fmt.Sprintf("%s-%d", fleet.WatchUpdate, w.version),
		UpdateName:   fleet.WatchUpdate,
		Args:         []any{w.version},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return table, err
	}
	err = handle.Get(ctx, &table)
	return table, err
}

// StartBoard starts the board unless it runs.
func StartBoard(ctx context.Context, c client.Client, taskQueue string) error {
	_, err := c.ExecuteWorkflow(ctx, BoardOptions(taskQueue), fleet.BoardWorkflow, fleet.BoardInput{})
	return err
}

// BoardOptions returns the start options of the board. A running board is used.
func BoardOptions(taskQueue string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID:                       fleet.BoardID,
		TaskQueue:                taskQueue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "Breaker board: every live verdict",
	}
}

// pause waits about d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(about(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// about returns a random duration between d/2 and 3d/2.
func about(d time.Duration) time.Duration {
	return d/2 + time.Duration(rand.Int64N(int64(d)))
}
