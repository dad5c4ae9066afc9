package member_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/fleet/member"
)

// server is a fake Temporal client with only the methods that a watcher calls.
type server struct {
	client.Client
	describe func(ctx context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	update   func(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)

	mu sync.Mutex
	// calls holds the calls in order, as "update watch-0", "describe", "start".
	calls   []string
	times   []time.Time
	started []client.StartWorkflowOptions
}

func (s *server) called(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.times = append(s.calls, what), append(s.times, time.Now())
}

func (s *server) DescribeWorkflowExecution(ctx context.Context, workflowID, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.called("describe")
	if workflowID != fleet.BoardID {
		return nil, fmt.Errorf("no such workflow: %s", workflowID)
	}
	if s.describe == nil {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	return s.describe(ctx)
}

func (s *server) UpdateWorkflow(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	s.called("update " + o.UpdateID)
	return s.update(ctx, o)
}

func (s *server) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	s.called(fmt.Sprint("start ", workflow))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = append(s.started, o)
	return nil, nil
}

// updates returns the updates of the board, and when each began.
func (s *server) updates() (calls []string, times []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, call := range s.calls {
		if strings.HasPrefix(call, "update") {
			calls, times = append(calls, call), append(times, s.times[i])
		}
	}
	return calls, times
}

// answer is a completed update.
type answer struct {
	client.WorkflowUpdateHandle
	table fleet.Table
	err   error
}

func (a answer) Get(_ context.Context, value any) error {
	*value.(*fleet.Table) = a.table
	return a.err
}

// until waits for the end of ctx. Like the SDK, it does not return the error of
// ctx.
func until(ctx context.Context) (client.WorkflowUpdateHandle, error) {
	<-ctx.Done()
	return nil, client.NewWorkflowUpdateServiceTimeoutOrCanceledError(serviceerror.NewDeadlineExceeded("context deadline exceeded"))
}

func memo(t *testing.T, value any) *workflowservice.DescribeWorkflowExecutionResponse {
	t.Helper()
	payload, err := converter.GetDefaultDataConverter().ToPayload(value)
	require.NoError(t, err)
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Memo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{fleet.TableMemo: payload}},
	}}
}

func table(version int64, entries ...fleet.Entry) fleet.Table {
	return fleet.Table{Version: version, Entries: entries}
}

// newWatcher returns a watcher and the tables that it has applied.
func newWatcher(s *server) (*member.Watcher, *[]fleet.Table) {
	var applied []fleet.Table
	return &member.Watcher{
		Client: s, TaskQueue: "toolbreaker", Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		Apply: func(t fleet.Table) { applied = append(applied, t) },
	}, &applied
}

// watchFor runs w for d of the synctest bubble's time.
func watchFor(w *member.Watcher, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	w.Run(ctx)
}

func TestBootstrap_AppliesTheMemo(t *testing.T) {
	t.Parallel()
	want := table(7, entry("carrier", breaker.Open, 5))
	w, applied := newWatcher(&server{describe: func(context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
		return memo(t, want), nil
	}})
	require.NoError(t, w.Bootstrap(t.Context()))
	assert.Equal(t, []fleet.Table{want}, *applied)
}

func TestBootstrap_ReadsAnEncodedMemo(t *testing.T) {
	t.Parallel()
	want := table(7, entry("carrier", breaker.Open, 5))
	codec := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), converter.NewZlibCodec(converter.ZlibCodecOptions{AlwaysEncode: true}))
	payload, err := codec.ToPayload(want)
	require.NoError(t, err)
	w, applied := newWatcher(&server{describe: func(context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
		answer := memo(t, nil)
		answer.WorkflowExecutionInfo.Memo.Fields[fleet.TableMemo] = payload
		return answer, nil
	}})
	w.DataConverter = codec
	require.NoError(t, w.Bootstrap(t.Context()))
	assert.Equal(t, []fleet.Table{want}, *applied)
}

// Without a board, or before its first memo, no key is open.
func TestBootstrap_WithoutABoardAppliesNothing(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*server{
		"no board": {describe: func(context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
			return nil, serviceerror.NewNotFound("no such workflow")
		}},
		"no memo": {describe: func(context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
			return &workflowservice.DescribeWorkflowExecutionResponse{}, nil
		}},
	} {
		w, applied := newWatcher(s)
		assert.NoError(t, w.Bootstrap(t.Context()), name)
		assert.Empty(t, *applied, name)
	}
}

func TestBootstrap_ReturnsItsErrors(t *testing.T) {
	t.Parallel()
	unavailable := serviceerror.NewUnavailable("connection refused")
	w, applied := newWatcher(&server{describe: func(context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
		return nil, unavailable
	}})
	err := w.Bootstrap(t.Context())
	require.ErrorIs(t, err, unavailable)
	assert.ErrorContains(t, err, "reading the breaker board")
	assert.Empty(t, *applied)

	w, applied = newWatcher(&server{describe: func(context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
		return memo(t, "no table"), nil
	}})
	assert.ErrorContains(t, w.Bootstrap(t.Context()), "memo")
	assert.Empty(t, *applied)
}

func TestBootstrap_IsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newWatcher(&server{describe: func(ctx context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		begun := time.Now()
		require.Error(t, w.Bootstrap(context.Background()))
		assert.Equal(t, 10*time.Second, time.Since(begun))
	})
}

// All watchers of one version share one update ID. The server joins them to one
// update, so its limit of ten does not apply.
func TestWatcher_WaitsWithItsVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opened, closed := table(8, entry("carrier", breaker.Open, 5)), table(9, entry("carrier", breaker.Closed, 6))
		s := &server{
			describe: func(context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
				return memo(t, table(7)), nil
			},
			update: func(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
				assert.Equal(t, fleet.BoardID, o.WorkflowID)
				assert.Empty(t, o.RunID, "the update goes to the current run")
				assert.Equal(t, fleet.WatchUpdate, o.UpdateName)
				assert.Equal(t, client.WorkflowUpdateStageCompleted, o.WaitForStage)
				switch o.Args[0] {
				case int64(7):
					return answer{table: opened}, nil
				case int64(8):
					return answer{table: closed}, nil
				}
				return until(ctx)
			},
		}
		w, applied := newWatcher(s)
		require.NoError(t, w.Bootstrap(context.Background()))
		watchFor(w, time.Minute)
		assert.Equal(t, []fleet.Table{table(7), opened, closed}, *applied)
		calls, times := s.updates()
		assert.Equal(t, []string{"update watch-7", "update watch-8", "update watch-9"}, calls)
		assert.Equal(t, times[0], times[2], "each change is applied at once")
	})
}

// A board that is about to continue as new answers its waiting updates with the
// same version. A new update at once would get the same answer until the run has
// ended.
func TestWatcher_PausesAfterAnUnchangedAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{update: func(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
			return answer{table: table(0)}, nil
		}}
		w, applied := newWatcher(s)
		watchFor(w, time.Minute)
		assert.Empty(t, *applied, "the same version is not applied again")
		require.Greater(t, len(s.times), 100)
		for i := range len(s.times) - 1 {
			pause := s.times[i+1].Sub(s.times[i])
			assert.GreaterOrEqual(t, pause, 100*time.Millisecond)
			assert.Less(t, pause, 300*time.Millisecond)
		}
	})
}

// A wait without a change is not an error. The next one begins at once, so that no
// verdict is late.
func TestWatcher_WaitsAgainAfterItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{update: func(ctx context.Context, _ client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
			return until(ctx)
		}}
		w, _ := newWatcher(s)
		begun := time.Now()
		watchFor(w, 7*time.Minute)
		calls, times := s.updates()
		assert.Equal(t, []string{"update watch-0", "update watch-0", "update watch-0", "update watch-0"}, calls)
		for i, at := range times {
			assert.Equal(t, time.Duration(i)*2*time.Minute, at.Sub(begun))
		}
	})
}

// If the update fails, as past the server's limit of waiting calls, the memo is
// read instead, about every five seconds with jitter.
func TestWatcher_FallsBackToTheMemo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		version := int64(0)
		s := &server{
			update: func(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
				return nil, serviceerror.NewResourceExhausted(enums.RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT, "too many")
			},
			describe: func(context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
				version++
				return memo(t, table(version)), nil
			},
		}
		w, applied := newWatcher(s)
		watchFor(w, 10*time.Minute)
		read := len(*applied)
		assert.InDelta(t, 120, read, 30)
		assert.Equal(t, table(int64(read)), (*applied)[read-1])
		assert.Contains(t, s.calls, fmt.Sprintf("update watch-%d", read-1), "the wait is tried again with the version of the memo")
		for i := 1; i < len(s.times)-1; i += 2 { // The end of ctx shortens the last pause.
			pause := s.times[i].Sub(s.times[i-1])
			assert.GreaterOrEqual(t, pause, 2500*time.Millisecond)
			assert.Less(t, pause, 7500*time.Millisecond)
		}
	})
}

func TestWatcher_RetriesWhileTemporalIsOutOfReach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reachable := false
		recovered := table(3, entry("carrier", breaker.Open, 5))
		s := &server{
			update: func(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
				if !reachable {
					return nil, serviceerror.NewUnavailable("connection refused")
				}
				if o.Args[0] == int64(3) {
					return until(ctx)
				}
				return answer{table: recovered}, nil
			},
			describe: func(context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
				return nil, serviceerror.NewUnavailable("connection refused")
			},
		}
		w, applied := newWatcher(s)
		watchFor(w, 10*time.Minute)
		assert.Empty(t, *applied)
		assert.Less(t, len(s.calls), 2*10*60/2, "retries have pauses")
		reachable = true
		watchFor(w, time.Minute)
		assert.Equal(t, []fleet.Table{recovered}, *applied)
	})
}

// The server's own deadline error may come without any wait.
func TestWatcher_PausesAfterTheServersDeadlineError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s := &server{}
		s.update = func(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
			if len(s.calls) > 100 {
				cancel() // The bubble's time does not advance in a loop without pauses.
			}
			return nil, client.NewWorkflowUpdateServiceTimeoutOrCanceledError(context.DeadlineExceeded)
		}
		w, _ := newWatcher(s)
		w.Run(ctx)
		assert.ErrorIs(t, ctx.Err(), context.DeadlineExceeded, "%d calls", len(s.calls))
	})
}

func TestWatcher_StartsTheBoardIfNoneRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.update = func(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
			switch {
			case len(s.started) == 0:
				return nil, serviceerror.NewNotFound("no such workflow")
			case o.Args[0] == int64(0):
				return answer{table: table(1)}, nil
			}
			return until(ctx)
		}
		w, applied := newWatcher(s)
		watchFor(w, time.Second)
		assert.Equal(t, []string{"update watch-0", "start BreakerBoard", "update watch-0", "update watch-1"}, s.calls)
		assert.Equal(t, []fleet.Table{table(1)}, *applied)
		require.Len(t, s.started, 1)
		assert.Equal(t, fleet.BoardID, s.started[0].ID)
		assert.Equal(t, "toolbreaker", s.started[0].TaskQueue)
		// A thousand processes start one board together.
		assert.Equal(t, enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, s.started[0].WorkflowIDConflictPolicy)
	})
}

// The server keeps returning the same error for an update of a terminated board,
// and its memo can still be read. The watcher must start a new board.
func TestWatcher_StartsTheBoardIfItEndedDuringTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{describe: func(context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
			return memo(t, table(1)), nil
		}}
		s.update = func(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
			switch {
			case len(s.started) == 0:
				return answer{err: temporal.NewApplicationError("the workflow completed before the update", "AcceptedUpdateCompletedWorkflow")}, nil
			case o.Args[0] == int64(1):
				return answer{table: table(2)}, nil
			}
			return until(ctx)
		}
		w, applied := newWatcher(s)
		require.NoError(t, w.Bootstrap(context.Background()))
		watchFor(w, time.Second)
		assert.Equal(t, []string{"describe", "update watch-1", "start BreakerBoard", "update watch-1", "update watch-2"}, s.calls)
		assert.Equal(t, []fleet.Table{table(1), table(2)}, *applied)
	})
}

// The SDK retries a refused update until its deadline without an error. Without the
// memo, the watcher would see a change two minutes late.
func TestWatcher_ReadsTheMemoWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		version, changed := int64(7), time.Now()
		s := &server{
			describe: func(context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
				return memo(t, table(version)), nil
			},
			update: func(ctx context.Context, _ client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
				return until(ctx)
			},
		}
		w, _ := newWatcher(s)
		require.NoError(t, w.Bootstrap(context.Background()))
		var late []time.Duration
		w.Apply = func(got fleet.Table) {
			assert.Equal(t, table(version), got)
			late = append(late, time.Since(changed))
			version, changed = version+1, time.Now()
		}
		version, changed = 8, time.Now()
		watchFor(w, 5*time.Minute)
		require.Greater(t, len(late), 30)
		assert.Less(t, late[0], 23*time.Second)
		for _, d := range late[1:] {
			assert.Less(t, d, 8*time.Second, "at the shorter interval, because the wait does not work")
		}
	})
}

func TestWatcher_DoesNotWaitForTheMemo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		s := &server{
			describe: func(ctx context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			update: func(ctx context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
				if o.Args[0] != int64(0) {
					return until(ctx)
				}
				time.Sleep(25 * time.Second) // A read of the memo is in progress.
				return answer{table: table(1)}, nil
			},
		}
		w, _ := newWatcher(s)
		var applied time.Duration
		w.Apply = func(fleet.Table) { applied = time.Since(begun) }
		watchFor(w, time.Minute)
		assert.Equal(t, 25*time.Second, applied)
	})
}

func TestWatcher_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, update := range map[string]func(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error){
		"waiting": func(ctx context.Context, _ client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
			return until(ctx)
		},
		"pausing": func(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
			return answer{table: table(0)}, nil
		},
		"falling back": func(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
			return nil, errors.New("no")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, applied := newWatcher(&server{update: update})
				begun := time.Now()
				watchFor(w, time.Second)
				assert.Equal(t, time.Second, time.Since(begun))
				assert.Empty(t, *applied)
			})
		})
	}
}

// entry returns an entry of a dependency in eu-west.
func entry(dependency string, state breaker.State, epoch int64) fleet.Entry {
	return fleet.Entry{
		Key:     breaker.Key{Dependency: dependency, Region: "eu-west"},
		Verdict: breaker.Verdict{State: state, Epoch: epoch, Outage: "outage/" + dependency + "/eu-west"},
	}
}
