package e2e_test

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

var recordTo = flag.String("record", "", "the directory for recorded histories; empty: none are recorded")

// recorder runs outages of every shape and records their histories.
type recorder struct {
	*harness
	// down makes synthetic calls fail.
	down atomic.Bool
	// sequence is the sequence of the last report.
	sequence int64
}

// TestRecordHistories records the histories that the tests of probeworkflow replay. See
// `make histories`.
func TestRecordHistories(t *testing.T) {
	if *recordTo == "" {
		t.Skip("only with -record")
	}
	r := &recorder{harness: newHarness(t, client.Options{Identity: "recorder"})}
	r.addTool("get", breaker.Config{}, func(context.Context, bool) (string, error) {
		if r.down.Load() {
			return "", errors.New("no connection")
		}
		return "fine", nil
	}, func(d *interceptor.Dependency) { d.Probe = interceptor.Synthetic("get", false) })
	r.start()
	for name, shape := range map[string]func(t *testing.T, key breaker.Key){
		"outage-recovered": func(t *testing.T, key breaker.Key) {
			r.startOutage(t, key, true, r.downReport(20))
			r.awaitEnd(t, key)
			r.record(t, probeworkflow.ProbeID(key), "probe-passed")
		},
		"outage-probe-failed": func(t *testing.T, key breaker.Key) {
			r.down.Store(true)
			r.startOutage(t, key, true, r.downReport(20))
			r.awaitState(t, key, breaker.HalfOpen)
			r.awaitState(t, key, breaker.Open)
			r.record(t, probeworkflow.ProbeID(key), "probe-failed")
			r.down.Store(false)
			r.awaitEnd(t, key)
		},
		"outage-without-probe": func(t *testing.T, key breaker.Key) {
			r.startOutage(t, key, false, r.downReport(20))
			r.awaitEnd(t, key)
		},
		"outage-dismissed": func(t *testing.T, key breaker.Key) {
			r.startOutage(t, key, true, r.downReport(1))
			r.awaitEnd(t, key)
		},
		"outage-tripped-on-the-ramp": func(t *testing.T, key breaker.Key) {
			r.startOutage(t, key, false, r.downReport(20))
			v := r.awaitState(t, key, breaker.Recovering)
			again := r.downReport(20)
			again.State, again.Epoch, again.Ramp = breaker.Recovering, v.Epoch, 20
			r.signal(t, key, again)
			r.awaitState(t, key, breaker.Open)
			r.awaitEnd(t, key)
		},
		"outage-held-off": func(t *testing.T, key breaker.Key) {
			report := r.downReport(20)
			report.HoldOff = 500 * time.Millisecond
			r.startOutage(t, key, false, report)
			r.awaitEnd(t, key)
		},
		"outage-cancelled": func(t *testing.T, key breaker.Key) {
			r.startOutage(t, key, false, r.downReport(20))
			r.awaitState(t, key, breaker.Recovering)
			require.NoError(t, r.client.CancelWorkflow(t.Context(), probeworkflow.OutageID(key), ""))
			r.awaitEnd(t, key)
		},
		"outage-in-a-burst": func(t *testing.T, key breaker.Key) {
			r.startOutage(t, key, false, r.downReport(20))
			for range 150 {
				r.signal(t, key, r.downReport(20))
			}
			r.awaitEnd(t, key)
		},
		"outage-continued-as-new": func(t *testing.T, key breaker.Key) {
			r.down.Store(true)
			r.startOutage(t, key, true, r.downReport(20))
			for range 1900 {
				r.signal(t, key, r.downReport(20))
			}
			require.Eventually(t, func() bool {
				d, err := r.client.DescribeWorkflowExecution(t.Context(), probeworkflow.OutageID(key), "")
				return err == nil && d.GetWorkflowExecutionInfo().GetFirstRunId() != d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
			}, waitTimeout, 100*time.Millisecond)
			r.down.Store(false)
			d, err := r.client.DescribeWorkflowExecution(t.Context(), probeworkflow.OutageID(key), "")
			require.NoError(t, err)
			r.save(t, probeworkflow.OutageID(key), d.GetWorkflowExecutionInfo().GetFirstRunId(), "outage-that-continues-as-new")
			r.awaitEnd(t, key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.down.Store(false)
			key := breaker.Key{Dependency: "get", Region: name}
			shape(t, key)
			r.record(t, probeworkflow.OutageID(key), name)
		})
	}
	r.record(t, fleet.BoardID, "board")
}

func (r *recorder) downReport(calls int) fleet.Report {
	r.sequence++
	return fleet.Report{
		Worker: "worker-1", Sequence: r.sequence, TaskQueue: "tools",
		Evidence: breaker.Evidence{Window: breaker.Counts{Samples: calls, Failures: calls}},
	}
}

func (r *recorder) startOutage(t *testing.T, key breaker.Key, probe bool, report fleet.Report) {
	t.Helper()
	settings := probeworkflow.Settings{Key: key, Breaker: breaker.Config{
		Window: 2 * time.Second, Cooldown: 200 * time.Millisecond, MaxCooldown: time.Second, Latency: time.Second,
		ProbeSuccesses: 2, ProbeInterval: 100 * time.Millisecond, Ramp: []int{50, 100}, RampStep: 500 * time.Millisecond,
	}.WithDefaults()}
	if probe {
		args, err := probeworkflow.EncodeArgs(converter.GetDefaultDataConverter(), []any{false})
		require.NoError(t, err)
		settings.Call = &probeworkflow.Call{Activity: "get", Args: args, TaskQueue: "tools", QueueTimeout: 5 * time.Second}
	}
	_, err := r.client.SignalWithStartWorkflow(t.Context(), probeworkflow.OutageID(key), probeworkflow.ReportSignal, report,
		client.StartWorkflowOptions{TaskQueue: interceptor.DefaultTaskQueue}, probeworkflow.OutageWorkflow, probeworkflow.OutageInput{Settings: settings})
	require.NoError(t, err)
}

func (r *recorder) signal(t *testing.T, key breaker.Key, report fleet.Report) {
	t.Helper()
	require.NoError(t, r.client.SignalWorkflow(t.Context(), probeworkflow.OutageID(key), "", probeworkflow.ReportSignal, report))
}

// awaitState waits until the outage is in a state, and returns its verdict.
func (r *recorder) awaitState(t *testing.T, key breaker.Key, state breaker.State) (v breaker.Verdict) {
	t.Helper()
	require.Eventually(t, func() bool {
		value, err := r.client.QueryWorkflow(t.Context(), probeworkflow.OutageID(key), "", probeworkflow.StateQuery)
		var status probeworkflow.Status
		if err != nil || value.Get(&status) != nil {
			return false
		}
		v = status.Verdict
		return v.State == state
	}, waitTimeout, 20*time.Millisecond)
	return v
}

// awaitEnd waits until the outage workflow has ended.
func (r *recorder) awaitEnd(t *testing.T, key breaker.Key) {
	t.Helper()
	require.Eventually(t, func() bool {
		d, err := r.client.DescribeWorkflowExecution(t.Context(), probeworkflow.OutageID(key), "")
		return err == nil && d.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING
	}, waitTimeout, 50*time.Millisecond)
}

func (r *recorder) record(t *testing.T, workflowID, name string) { r.save(t, workflowID, "", name) }

// save writes a history without the names of the machine and the process.
func (r *recorder) save(t *testing.T, workflowID, runID, name string) {
	t.Helper()
	var recorded history.History
	events := r.client.GetWorkflowHistory(t.Context(), workflowID, runID, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(t, err)
		recorded.Events = append(recorded.Events, event)
	}
	data, err := protojson.Marshal(&recorded)
	require.NoError(t, err)
	var tree any
	require.NoError(t, json.Unmarshal(data, &tree))
	data, err = json.Marshal(anonymous(tree))
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	require.NotContains(t, string(data), host)
	require.NoError(t, os.MkdirAll(*recordTo, 0o755))
	file, err := os.Create(filepath.Join(*recordTo, name+".json.gz"))
	require.NoError(t, err)
	compressed := gzip.NewWriter(file)
	_, err = io.Copy(compressed, strings.NewReader(string(data)))
	require.NoError(t, err)
	require.NoError(t, compressed.Close())
	require.NoError(t, file.Close())
	t.Logf("%s: %d events", name, len(recorded.Events))
}

// anonymous replaces identities, and the name of the machine in all text and payloads.
func anonymous(tree any) any {
	host, _ := os.Hostname()
	switch v := tree.(type) {
	case map[string]any:
		for key, value := range v {
			text, isText := value.(string)
			switch {
			case key == "identity":
				v[key] = "recorder"
			case key == "data" && isText:
				if plain, err := base64.StdEncoding.DecodeString(text); err == nil {
					v[key] = base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(string(plain), host, "host")))
				}
			case isText:
				v[key] = strings.ReplaceAll(text, host, "host")
			default:
				v[key] = anonymous(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = anonymous(v[i])
		}
	}
	return tree
}
