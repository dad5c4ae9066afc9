package fleet_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
)

var start = time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC)

// board is one run of the board workflow under test.
type board struct {
	t   *testing.T
	env *testsuite.TestWorkflowEnvironment
	// memos holds the upserted memos in order.
	memos []fleet.Table
	// step is the time of the last scheduled step.
	step time.Duration
}

func newBoard(t *testing.T) *board {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	b := &board{t: t, env: suite.NewTestWorkflowEnvironment()}
	b.env.SetStartTime(start)
	b.env.SetTestTimeout(time.Minute)
	b.env.RegisterWorkflowWithOptions(fleet.Board, workflow.RegisterOptions{Name: fleet.BoardWorkflow})
	b.env.OnUpsertMemo(mock.Anything).Run(func(args mock.Arguments) {
		memo := args.Get(0).(map[string]any)
		require.Len(t, memo, 1)
		b.memos = append(b.memos, copied(t, memo[fleet.TableMemo].(fleet.Table)))
	}).Return(nil)
	return b
}

// copied returns a copy of a table, because the workflow keeps changing its own.
func copied(t *testing.T, table fleet.Table) fleet.Table {
	t.Helper()
	payload, err := converter.GetDefaultDataConverter().ToPayload(table)
	require.NoError(t, err)
	var read fleet.Table
	require.NoError(t, converter.GetDefaultDataConverter().FromPayload(payload, &read))
	return read
}

// then runs f one second after the previous step.
func (b *board) then(f func()) {
	b.step += time.Second
	b.env.RegisterDelayedCallback(f, b.step)
}

func (b *board) signal(entries ...fleet.Entry) {
	b.then(func() {
		for _, e := range entries {
			b.env.SignalWorkflow(fleet.VerdictSignal, e)
		}
	})
}

func (b *board) query() fleet.Table {
	b.t.Helper()
	value, err := b.env.QueryWorkflow(fleet.TableQuery)
	require.NoError(b.t, err)
	var table fleet.Table
	require.NoError(b.t, value.Get(&table))
	return table
}

// watcher is one update that waits on the board.
type watcher struct {
	answered bool
	at       time.Time
	table    fleet.Table
	err      error
}

// watch starts an update now. It is called in a step.
func (b *board) watch(id string, since int64) *watcher {
	w := &watcher{}
	b.env.UpdateWorkflow(fleet.WatchUpdate, id, &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { w.err = err },
		OnComplete: func(result any, err error) {
			w.answered, w.at, w.err = true, b.env.Now(), err
			if table, ok := result.(fleet.Table); ok {
				w.table = copied(b.t, table)
			}
		},
	}, since)
	return w
}

// run runs the steps, makes the board continue as new, and returns the table of the
// next run's input.
func (b *board) run(table fleet.Table) fleet.Table {
	b.t.Helper()
	b.then(func() {
		b.env.SetContinueAsNewSuggested(true)
		b.env.SignalWorkflow(fleet.VerdictSignal, "wake up")
	})
	b.env.ExecuteWorkflow(fleet.BoardWorkflow, table)
	return b.nextInput()
}

func (b *board) nextInput() fleet.Table {
	b.t.Helper()
	require.True(b.t, b.env.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(b.t, b.env.GetWorkflowError(), &next)
	assert.Equal(b.t, fleet.BoardWorkflow, next.WorkflowType.Name)
	var table fleet.Table
	require.NoError(b.t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &table))
	return table
}

func entry(dependency string, state breaker.State, epoch int64) fleet.Entry {
	return fleet.Entry{
		Key:     breaker.Key{Dependency: dependency, Region: "eu-west"},
		Verdict: breaker.Verdict{State: state, Epoch: epoch, Outage: "outage/" + dependency + "/eu-west"},
	}
}

// entries returns a table's rows as "dependency state epoch".
func entries(table fleet.Table) []string {
	rows := []string{}
	for _, e := range table.Entries {
		rows = append(rows, fmt.Sprintf("%s %s %d", e.Key.Dependency, e.Verdict.State, e.Verdict.Epoch))
	}
	return rows
}

func TestBoard_StartsEmptyWithTheTimeAsVersion(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	var table fleet.Table
	b.then(func() { table = b.query() })
	b.run(fleet.Table{})
	assert.Empty(t, table.Entries)
	// So it is greater than every version of a terminated board.
	assert.GreaterOrEqual(t, table.Version, start.UnixMilli())
}

func TestBoard_KeepsTheNewestVerdictOfEachKey(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	b.signal(entry("search", breaker.Open, 7))
	b.signal(entry("carrier", breaker.Open, 5))
	b.signal(entry("carrier", breaker.HalfOpen, 6))
	b.signal(entry("model", breaker.Recovering, 1))
	table := b.run(fleet.Table{})
	// The entries are sorted by key, so that a replay writes the same table.
	assert.Equal(t, []string{"carrier half-open 6", "model recovering 1", "search open 7"}, entries(table))
}

func TestBoard_KeepsRegionsSeparate(t *testing.T) {
	t.Parallel()
	east := entry("carrier", breaker.Open, 5)
	east.Key.Region = "us-east"
	b := newBoard(t)
	b.signal(entry("carrier", breaker.Open, 9), east)
	table := b.run(fleet.Table{})
	assert.Equal(t, []string{"carrier open 9", "carrier open 5"}, entries(table))
}

// The outage workflow does not wait for a publish activity, so verdicts arrive in
// any order.
func TestBoard_IgnoresOlderEpochs(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]fleet.Entry{
		"smaller":   entry("carrier", breaker.Closed, 4),
		"duplicate": entry("carrier", breaker.Open, 5),
		"equal":     entry("carrier", breaker.Closed, 5),
		"zero":      entry("carrier", breaker.Closed, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t)
			var before, after fleet.Table
			b.signal(entry("carrier", breaker.Open, 5))
			b.then(func() { before = b.query() })
			b.signal(late)
			b.then(func() { after = b.query() })
			b.run(fleet.Table{})
			assert.Equal(t, []string{"carrier open 5"}, entries(after))
			assert.Equal(t, before.Version, after.Version, "no waiting update is answered")
		})
	}
}

func TestBoard_KeepsEveryFieldOfAVerdict(t *testing.T) {
	t.Parallel()
	whole := fleet.Entry{
		Key: breaker.Key{Dependency: "carrier", Region: "eu-west"},
		Verdict: breaker.Verdict{
			State: breaker.Recovering, Epoch: 5, Since: start, Next: start.Add(time.Minute), Share: 25, Step: 1, Outage: "outage/carrier/eu-west",
			Reason: breaker.Reason{Rule: breaker.RuleLatency, Counts: breaker.Counts{Samples: 20, Slow: 9}, Hung: 3, Horizon: time.Minute, Latency: time.Second, Quantile: 0.99},
		},
	}
	b := newBoard(t)
	b.signal(whole)
	var queried fleet.Table
	b.then(func() { queried = b.query() })
	next := b.run(fleet.Table{})
	assert.Equal(t, whole, queried.Entries[0])
	assert.Equal(t, whole, next.Entries[0])
}

func TestBoard_VersionGrowsWithEachChange(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	for epoch := range int64(5) {
		b.signal(entry("carrier", breaker.Open, epoch+1))
	}
	b.run(fleet.Table{})
	for i := range len(b.memos) - 1 {
		assert.Greater(t, b.memos[i+1].Version, b.memos[i].Version)
	}
}

// The clock may stand still, or be set back between two runs.
func TestBoard_VersionGrowsWhenTheClockDoesNot(t *testing.T) {
	t.Parallel()
	ahead := start.Add(24 * time.Hour).UnixMilli()
	b := newBoard(t)
	b.signal(entry("carrier", breaker.Open, 1))
	b.run(fleet.Table{Version: ahead})
	require.GreaterOrEqual(t, len(b.memos), 2)
	assert.Equal(t, ahead+1, b.memos[0].Version, "each run starts with a new version")
	assert.Equal(t, ahead+2, b.memos[1].Version)
}

// A starting process reads the memo before its first task, when no worker may be
// running.
func TestBoard_WritesTheMemoOnEachChange(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	b.signal(entry("carrier", breaker.Open, 5))
	b.signal(entry("carrier", breaker.Closed, 4))
	b.signal(entry("carrier", breaker.HalfOpen, 6), entry("carrier", breaker.Recovering, 7))
	var queried fleet.Table
	b.then(func() { queried = b.query() })
	b.run(fleet.Table{})
	var rows [][]string
	for _, memo := range b.memos {
		rows = append(rows, entries(memo))
	}
	require.GreaterOrEqual(t, len(rows), 3)
	assert.Empty(t, rows[0], "the first memo is written at once, with no entry")
	assert.Equal(t, []string{"carrier open 5"}, rows[1])
	assert.NotEqual(t, rows[1], rows[2], "a verdict that changes nothing writes no memo")
	assert.Equal(t, []string{"carrier recovering 7"}, entries(queried))
	var last fleet.Table
	for _, memo := range b.memos {
		if memo.Version == queried.Version {
			last = memo
		}
	}
	assert.Equal(t, queried, last, "the memo is the table")
}

func TestBoard_AnswersAWatcherWithAnotherVersionAtOnce(t *testing.T) {
	t.Parallel()
	for name, since := range map[string]int64{
		"no version":                   0,
		"an older version":             1,
		"a terminated board's version": start.Add(time.Hour).UnixMilli(),
		"a version that never existed": -1,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t)
			b.signal(entry("carrier", breaker.Open, 5))
			var w *watcher
			var begun time.Time
			b.then(func() { w, begun = b.watch("watch", since), b.env.Now() })
			b.run(fleet.Table{})
			require.True(t, w.answered)
			require.NoError(t, w.err)
			assert.Equal(t, begun, w.at)
			assert.Equal(t, []string{"carrier open 5"}, entries(w.table))
		})
	}
}

func TestBoard_AnswersEveryWatcherAtTheNextChange(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	var watchers []*watcher
	b.then(func() {
		version := b.query().Version
		for i := range 3 {
			watchers = append(watchers, b.watch(fmt.Sprintf("watch-%d", i), version))
		}
	})
	b.signal(entry("carrier", breaker.Open, 4)) // Its epoch is not newer, so nothing changes.
	b.then(func() {
		for _, w := range watchers {
			assert.False(t, w.answered, "nothing has changed yet")
		}
	})
	b.signal(entry("carrier", breaker.Open, 5))
	changed := start.Add(b.step)
	b.run(fleet.Table{Version: 1, Entries: []fleet.Entry{entry("carrier", breaker.Closed, 4)}})
	for _, w := range watchers {
		require.True(t, w.answered)
		require.NoError(t, w.err)
		assert.True(t, changed.Equal(w.at), w.at)
		assert.Equal(t, []string{"carrier open 5"}, entries(w.table))
		assert.Equal(t, b.memos[1].Version, w.table.Version, "the answer has the version for the next update")
	}
}

func TestBoard_AnswersAQueryWhileItWaits(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	var table fleet.Table
	b.then(func() { table = b.query() })
	b.run(fleet.Table{Version: 1, Entries: []fleet.Entry{entry("carrier", breaker.Open, 5)}})
	assert.Equal(t, []string{"carrier open 5"}, entries(table))
	assert.Equal(t, b.memos[0], table)
}

// An undecodable signal about one key must not stop the board for all keys.
func TestBoard_SurvivesASignalThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	for name, invalid := range map[string]any{
		"text":            "down",
		"number":          17,
		"list":            []int{1},
		"unknown state":   map[string]any{"key": map[string]any{"dependency": "carrier"}, "verdict": map[string]any{"state": "exploded", "epoch": 99}},
		"epoch of a text": map[string]any{"verdict": map[string]any{"state": "open", "epoch": "newest"}},
		"bytes":           []byte{0xff, 0xfe},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBoard(t)
			b.then(func() { b.env.SignalWorkflow(fleet.VerdictSignal, invalid) })
			b.signal(entry("carrier", breaker.Open, 5))
			b.then(func() { b.env.SignalWorkflow(fleet.VerdictSignal, invalid) })
			b.signal(entry("carrier", breaker.HalfOpen, 6))
			table := b.run(fleet.Table{})
			assert.Equal(t, []string{"carrier half-open 6"}, entries(table))
		})
	}
}

// A worker that was out of reach learns of an outage's end. The number of closed
// entries is still bounded.
func TestBoard_KeepsTheLatestClosedKeysAndEveryOpenKey(t *testing.T) {
	t.Parallel()
	name := func(i int) string { return fmt.Sprintf("dependency-%02d", i) }
	closedAndOpen := func(table fleet.Table) (closed, open []string) {
		for _, e := range table.Entries {
			if e.Verdict.State == breaker.Closed {
				closed = append(closed, e.Key.Dependency)
			} else {
				open = append(open, e.Key.Dependency)
			}
		}
		return closed, open
	}
	// The open entries have the oldest epochs, and must stay.
	full := fleet.Table{Version: 1}
	for i := range 40 {
		full.Entries = append(full.Entries, entry(name(i), breaker.Open, int64(1+i)))
	}
	b := newBoard(t)
	// The last key is closed first, so that age and order differ.
	for i := range 40 {
		b.signal(entry(name(39-i), breaker.Closed, int64(100+i)))
	}
	var halfway fleet.Table
	b.env.RegisterDelayedCallback(func() { halfway = b.query() }, 32*time.Second+time.Millisecond)
	table := b.run(full)

	closed, open := closedAndOpen(halfway)
	assert.Len(t, closed, 32)
	assert.Len(t, open, 8)
	closed, open = closedAndOpen(table)
	assert.Empty(t, open)
	require.Len(t, closed, 32)
	assert.Equal(t, name(0), closed[0])
	assert.Equal(t, name(31), closed[31], "the keys that closed first are dropped")
}

func TestBoard_ContinuesAsNewBeforeItsHistoryGrowsTooLong(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]bool{2000: false, 2001: true} {
		b := newBoard(t)
		var table fleet.Table
		b.then(func() { b.env.SetCurrentHistoryLength(length) })
		b.signal(entry("carrier", breaker.Open, 5))
		b.then(func() {
			assert.Equal(t, want, b.env.IsWorkflowCompleted(), "at %d events", length)
			b.env.SetCurrentHistoryLength(5000)
		})
		b.signal(entry("carrier", breaker.HalfOpen, 6))
		b.env.ExecuteWorkflow(fleet.BoardWorkflow, fleet.Table{})
		table = b.nextInput()
		if want {
			assert.Equal(t, []string{"carrier open 5"}, entries(table))
		} else {
			assert.Equal(t, []string{"carrier half-open 6"}, entries(table))
		}
	}
}

// An accepted update fails for its caller when the run ends. All 1,000 workers
// would then read the memo at once.
func TestBoard_AnswersWaitingUpdatesBeforeItContinuesAsNew(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	var waiting []*watcher
	b.then(func() {
		version := b.query().Version
		for i := range 3 {
			waiting = append(waiting, b.watch(fmt.Sprintf("watch-%d", i), version))
		}
	})
	next := b.run(fleet.Table{Version: 1, Entries: []fleet.Entry{entry("carrier", breaker.Open, 5)}})
	assert.Equal(t, []string{"carrier open 5"}, entries(next))
	for _, w := range waiting {
		require.True(t, w.answered)
		require.NoError(t, w.err)
		assert.Equal(t, b.memos[0].Version, w.table.Version, "the same version, so that the watcher waits again")
	}
	assert.Equal(t, b.memos[0].Version, next.Version)
}

// Signals that arrive with the last workflow task of a run must reach the next run.
func TestBoard_KeepsSignalsThatArriveAsItContinuesAsNew(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	b.then(func() {
		b.env.SetContinueAsNewSuggested(true)
		b.env.SignalWorkflowSkippingWorkflowTask(fleet.VerdictSignal, entry("carrier", breaker.Open, 5))
		b.env.SignalWorkflowSkippingWorkflowTask(fleet.VerdictSignal, entry("search", breaker.Open, 6))
		b.env.SignalWorkflow(fleet.VerdictSignal, entry("model", breaker.Open, 7))
	})
	b.env.ExecuteWorkflow(fleet.BoardWorkflow, fleet.Table{})
	assert.Equal(t, []string{"carrier open 5", "model open 7", "search open 6"}, entries(b.nextInput()))
}

// The next run has the same entries with a new version. A watcher whose update was
// answered unchanged asks it with the old version, and gets the table at once.
func TestBoard_StartsTheNextRunWithANewVersion(t *testing.T) {
	t.Parallel()
	first := newBoard(t)
	first.signal(entry("carrier", breaker.Open, 5))
	handed := first.run(fleet.Table{})

	second := newBoard(t)
	var w *watcher
	second.then(func() { w = second.watch("watch", handed.Version) })
	second.run(handed)
	require.True(t, w.answered)
	assert.Greater(t, w.table.Version, handed.Version)
	assert.Equal(t, []string{"carrier open 5"}, entries(w.table))
	assert.Equal(t, w.table, second.memos[0])
}

// A cancelled board ends at once, not at the next verdict, which it would lose.
func TestBoard_EndsWhenCancelledWithoutConsumingAVerdict(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	b.then(b.env.CancelWorkflow)
	cancelled := start.Add(b.step)
	b.signal(entry("carrier", breaker.Open, 5))
	b.env.ExecuteWorkflow(fleet.BoardWorkflow, fleet.Table{})
	assert.True(t, temporal.IsCanceledError(b.env.GetWorkflowError()))
	assert.True(t, cancelled.Equal(b.env.Now()), "it ended at %v", b.env.Now())
}

// The verdict that starts a board is in its first memo.
func TestBoard_WritesTheVerdictThatStartedItToTheFirstMemo(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	b.env.RegisterDelayedCallback(func() { b.env.SignalWorkflow(fleet.VerdictSignal, entry("carrier", breaker.Open, 5)) }, 0)
	b.run(fleet.Table{})
	assert.Equal(t, []string{"carrier open 5"}, entries(b.memos[0]))
}

// The Temporal UI shows the board as its current details.
func TestBoard_ShowsItsTableInTheUI(t *testing.T) {
	t.Parallel()
	down := entry("carrier", breaker.Open, 5)
	down.Verdict.Since, down.Verdict.Next = start, start.Add(30*time.Second)
	down.Verdict.Reason = breaker.Reason{Rule: breaker.RuleFailureRate, Counts: breaker.Counts{Samples: 20, Failures: 12}, Horizon: 10 * time.Second, FailureRate: 0.5}
	returning := entry("search", breaker.Recovering, 6)
	returning.Verdict.Since, returning.Verdict.Share = start, 25
	var before, after string
	b := newBoard(t)
	b.then(func() { before = b.details() })
	b.signal(down, returning)
	b.then(func() { after = b.details() })
	b.run(fleet.Table{})
	assert.Equal(t, "No outage. Every breaker is **closed**.", before)
	assert.Contains(t, after, "| carrier | eu-west | **open** | 14:00:00 | 14:00:30 | 12 of 20 calls failed in 10s (over 50%) |\n")
	assert.Contains(t, after, "| search | eu-west | **recovering (25%)** | 14:00:00 |  |  |\n")
}

func (b *board) details() string {
	b.t.Helper()
	value, err := b.env.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(b.t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(b.t, value.Get(&metadata))
	return metadata.GetCurrentDetails()
}

var (
	euWest = breaker.Key{Dependency: "carrier-api", Region: "eu-west"}
	usEast = breaker.Key{Dependency: "carrier-api", Region: "us-east"}
)

func entryOf(key breaker.Key, state breaker.State, epoch int64) fleet.Entry {
	e := entry(key.Dependency, state, epoch)
	e.Key = key
	return e
}

func (b *board) poll(polls ...fleet.Poll) {
	b.then(func() {
		for _, p := range polls {
			b.env.SignalWorkflow(fleet.PollSignal, p)
		}
	})
}

func pollOf(key breaker.Key, round int64) fleet.Poll {
	return fleet.Poll{Key: key, Outage: "outage/" + key.String(), Round: round, OneIn: 1, Workers: 3, Until: start.Add(time.Hour)}
}

// A poll stays on the board until the next verdict about its key.
func TestBoard_KeepsAPollUntilTheNextVerdict(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	var polled, decided fleet.Table
	b.poll(pollOf(euWest, 7), pollOf(usEast, 7))
	b.then(func() { polled = b.query() })
	b.signal(entryOf(euWest, breaker.Open, 8))
	b.then(func() { decided = b.query() })
	b.run(fleet.Table{})
	assert.Equal(t, []fleet.Poll{pollOf(euWest, 7), pollOf(usEast, 7)}, polled.Polls)
	assert.Equal(t, []fleet.Poll{pollOf(usEast, 7)}, decided.Polls)
	assert.Greater(t, decided.Version, polled.Version, "both changes answer the waiting updates")
}

func TestBoard_KeepsTheNewestPollOfAKey(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	all := pollOf(euWest, 9)
	all.OneIn = 0
	b.poll(pollOf(euWest, 7))
	b.poll(all)
	b.poll(pollOf(euWest, 8))
	table := b.run(fleet.Table{})
	assert.Equal(t, []fleet.Poll{all}, table.Polls)
}

func TestBoard_DropsPollsThatAreAnsweredOrExpired(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	b.signal(entryOf(euWest, breaker.Open, 8))
	b.poll(pollOf(euWest, 7))
	expired := pollOf(usEast, 7)
	expired.Until = start.Add(2 * time.Second)
	b.poll(expired)
	b.then(func() {})
	b.signal(entryOf(euWest, breaker.HalfOpen, 9))
	assert.Empty(t, b.run(fleet.Table{}).Polls)
}

// hint sends one hint from each of n workers.
func (b *board) hint(n int, key breaker.Key) {
	b.then(func() {
		for i := range n {
			b.env.SignalWorkflow(fleet.HintSignal, fleet.Hint{Key: key, Worker: fmt.Sprint(i)})
		}
	})
}

// suspected records the keys that the board suspects.
func (b *board) suspected() *[]breaker.Key {
	var keys []breaker.Key
	b.env.RegisterActivityWithOptions(func(_ context.Context, key breaker.Key) error {
		keys = append(keys, key)
		return nil
	}, activity.RegisterOptions{Name: fleet.SuspectActivity})
	return &keys
}

func TestBoard_SuspectsAKeyWithManyHints(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	keys := b.suspected()
	b.hint(2, euWest)
	b.hint(2, usEast)
	b.hint(1, euWest)
	b.hint(40, euWest)
	b.run(fleet.Table{})
	assert.Equal(t, []breaker.Key{euWest}, *keys)
	assert.Len(t, b.memos, 1, "hints do not change the table")
}

func TestBoard_SuspectsNoKeyThatIsPolledOrDown(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	keys := b.suspected()
	b.poll(pollOf(euWest, 7))
	b.signal(entryOf(usEast, breaker.Open, 8))
	b.hint(40, euWest)
	b.hint(40, usEast)
	b.hint(40, breaker.Key{Dependency: "../../etc", Region: "a b"})
	b.run(fleet.Table{})
	assert.Empty(t, *keys)
}

// The noise of a dismissed suspicion is kept over continue-as-new, and raises no
// new suspicion.
func TestBoard_CountsDismissedHintsAsNoise(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	keys := b.suspected()
	b.hint(3, euWest)
	dismissed := entryOf(euWest, breaker.Closed, 9)
	dismissed.Dismissed, dismissed.Outliers = true, []string{"worker-1"}
	b.signal(dismissed)
	b.hint(40, euWest)
	b.then(func() {
		b.env.SetContinueAsNewSuggested(true)
		b.env.SignalWorkflow(fleet.VerdictSignal, "wake up")
	})
	b.env.ExecuteWorkflow(fleet.BoardWorkflow, fleet.BoardInput{})
	assert.Equal(t, []breaker.Key{euWest}, *keys)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, b.env.GetWorkflowError(), &next)
	var in fleet.BoardInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	assert.Equal(t, []fleet.Entry{dismissed}, in.Entries)
	require.Contains(t, in.Hints, euWest.String())
	assert.True(t, in.Hints[euWest.String()].MutedUntil.After(start))
}

// Hints about a million keys must not fill the board's memory.
func TestBoard_CountsHintsOfABoundedNumberOfKeys(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	b.suspected()
	for i := range 15 {
		b.then(func() {
			for j := range 100 {
				b.env.SignalWorkflow(fleet.HintSignal, fleet.Hint{Key: breaker.Key{Dependency: "d", Region: fmt.Sprint(100*i + j)}})
			}
		})
	}
	b.then(func() {
		b.env.SetContinueAsNewSuggested(true)
		b.env.SignalWorkflow(fleet.VerdictSignal, "wake up")
	})
	b.env.ExecuteWorkflow(fleet.BoardWorkflow, fleet.BoardInput{})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, b.env.GetWorkflowError(), &next)
	var in fleet.BoardInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	assert.Len(t, in.Hints, 1000)
}
