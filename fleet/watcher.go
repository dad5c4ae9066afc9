package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
)

const (
	// watchDeadline bounds one wait; the next one joins the same update.
	watchDeadline = 2 * time.Minute
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
}

// Bootstrap reads the board's memo: what a starting worker must know before its
// first task. It needs no worker to be running. A board that does not exist yet
// means that nothing is open.
func (w *Watcher) Bootstrap(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, describeDeadline)
	defer cancel()
	desc, err := w.Client.DescribeWorkflowExecution(ctx, BoardID, "")
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the breaker board: %w", err)
	}
	payload, ok := desc.GetWorkflowExecutionInfo().GetMemo().GetFields()[TableMemo]
	if !ok {
		return nil
	}
	var table Table
	dc := w.DataConverter
	if dc == nil {
		dc = converter.GetDefaultDataConverter()
	}
	if err := dc.FromPayload(payload, &table); err != nil {
		return fmt.Errorf("reading the breaker board's memo: %w", err)
	}
	w.take(table)
	return nil
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

func (w *Watcher) wait(ctx context.Context) (Table, error) {
	ctx, cancel := context.WithTimeout(ctx, watchDeadline)
	defer cancel()
	table, err := w.ask(ctx)
	// The SDK's own error for a wait that ran out does not unwrap to the context's.
	if err != nil && ctx.Err() != nil {
		err = errQuiet
	}
	return table, err
}

func (w *Watcher) ask(ctx context.Context) (Table, error) {
	var table Table
	handle, err := w.update(ctx)
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		if err := StartBoard(ctx, w.Client, w.TaskQueue); err != nil {
			return table, err
		}
		handle, err = w.update(ctx)
	}
	if err != nil {
		return table, err
	}
	err = handle.Get(ctx, &table)
	return table, err
}

func (w *Watcher) update(ctx context.Context) (client.WorkflowUpdateHandle, error) {
	return w.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID:   BoardID,
		UpdateID:     fmt.Sprintf("%s-%d", WatchUpdate, w.version),
		UpdateName:   WatchUpdate,
		Args:         []any{w.version},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
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

// pause waits for about d, half to one and a half of it, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + time.Duration(rand.Int64N(int64(d))))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
