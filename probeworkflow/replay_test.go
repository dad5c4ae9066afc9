package probeworkflow_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// shapes are the recorded histories of the newest version.
var shapes = []string{
	"board", "outage-cancelled", "outage-continued-as-new", "outage-dismissed", "outage-held-off", "outage-in-a-burst",
	"outage-probe-failed", "outage-recovered", "outage-that-continues-as-new", "outage-tripped-on-the-ramp",
	"outage-without-probe", "probe-failed", "probe-passed",
}

const newest = "v1"

func recorded(t *testing.T, file string) *history.History {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	plain, err := gzip.NewReader(f)
	require.NoError(t, err)
	data, err := io.ReadAll(plain)
	require.NoError(t, err)
	var h history.History
	require.NoError(t, protojson.Unmarshal(data, &h))
	return &h
}

func replayer(outage any) worker.WorkflowReplayer {
	r := worker.NewWorkflowReplayer()
	name := func(s string) workflow.RegisterOptions { return workflow.RegisterOptions{Name: s} }
	r.RegisterWorkflowWithOptions(fleet.Board, name(fleet.BoardWorkflow))
	r.RegisterWorkflowWithOptions(outage, name(probeworkflow.OutageWorkflow))
	r.RegisterWorkflowWithOptions(probeworkflow.Probe, name(probeworkflow.ProbeWorkflow))
	return r
}

// Workflows may run for years. Every later version of the code must replay the
// histories of each earlier one. See `make histories`.
func TestReplay_OfEveryRecordedHistory(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/histories/*/*.json.gz")
	require.NoError(t, err)
	var of []string
	for _, file := range files {
		version, shape := filepath.Base(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".json.gz")
		if version == newest {
			of = append(of, shape)
		}
		t.Run(version+"/"+shape, func(t *testing.T) {
			t.Parallel()
			assert.NoError(t, replayer(probeworkflow.Outage).ReplayWorkflowHistory(nil, recorded(t, file)))
		})
	}
	assert.ElementsMatch(t, shapes, of)
}

// The replay test must fail for a changed workflow.
func TestReplay_FailsForAChangedWorkflow(t *testing.T) {
	t.Parallel()
	changed := func(ctx workflow.Context, in probeworkflow.OutageInput) (probeworkflow.OutageReport, error) {
		return probeworkflow.OutageReport{}, workflow.Sleep(ctx, 1)
	}
	assert.Error(t, replayer(changed).ReplayWorkflowHistory(nil, recorded(t, "testdata/histories/"+newest+"/outage-recovered.json.gz")))
}
