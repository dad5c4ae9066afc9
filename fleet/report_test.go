package fleet_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
)

func numbered(worker string, sequence int64, samples int) fleet.Report {
	r := report(worker, samples, 0)
	r.Sequence = sequence
	return r
}

func TestReports_KeepTheNewestOfEachWorker(t *testing.T) {
	t.Parallel()
	var reports fleet.Reports
	assert.True(t, reports.Add(numbered("a", 1, 10)))
	assert.True(t, reports.Add(numbered("b", 1, 20)))
	assert.True(t, reports.Add(numbered("a", 2, 30)))
	// The order is that of first arrival. A map's order would not replay.
	assert.Equal(t, []fleet.Report{numbered("a", 2, 30), numbered("b", 1, 20)}, reports.All())
	assert.Equal(t, 50, reports.Sum().Window.Samples, "a replaced report does not count")
}

// Signals are delivered at least once, in any order.
func TestReports_IgnoreDuplicateAndLateReports(t *testing.T) {
	t.Parallel()
	var reports fleet.Reports
	require.True(t, reports.Add(numbered("a", 5, 10)))
	for name, r := range map[string]fleet.Report{
		"duplicate":                 numbered("a", 5, 10),
		"same sequence, new counts": numbered("a", 5, 99),
		"late":                      numbered("a", 4, 99),
		"without a sequence":        numbered("a", 0, 99),
	} {
		assert.False(t, reports.Add(r), name)
		assert.Equal(t, []fleet.Report{numbered("a", 5, 10)}, reports.All(), name)
	}
	assert.True(t, reports.Add(numbered("b", 1, 20)), "each worker has its own sequence")
}

func TestReports_ResetRemovesAll(t *testing.T) {
	t.Parallel()
	var reports fleet.Reports
	reports.Add(numbered("a", 5, 10))
	reports.Reset()
	assert.Empty(t, reports.All())
	assert.Zero(t, reports.Sum())
	assert.True(t, reports.Add(numbered("a", 4, 20)), "the sequences are removed too")
}

func TestReports_SumEveryCount(t *testing.T) {
	t.Parallel()
	e := breaker.Evidence{
		Window: breaker.Counts{Samples: 1, Failures: 2, Slow: 3}, Fast: breaker.Counts{Samples: 4, Failures: 5, Slow: 6}, Hung: 7, Ramp: 8,
	}
	var reports fleet.Reports
	reports.Add(fleet.Report{Worker: "a", Evidence: e})
	reports.Add(fleet.Report{Worker: "b", Evidence: e})
	assert.Equal(t, breaker.Evidence{
		Window: breaker.Counts{Samples: 2, Failures: 4, Slow: 6}, Fast: breaker.Counts{Samples: 8, Failures: 10, Slow: 12}, Hung: 14, Ramp: 16,
	}, reports.Sum())
}

// During a rollout a fleet runs several versions, so the JSON must stay the same.
func TestReport_IsEncodedAsPlainCounts(t *testing.T) {
	t.Parallel()
	r := fleet.Report{
		Worker: "17.1@host", Sequence: 3, TaskQueue: "tools", State: breaker.Recovering, Epoch: 42,
		Evidence: breaker.Evidence{
			Window: breaker.Counts{Samples: 9, Failures: 8, Slow: 7}, Fast: breaker.Counts{Samples: 6, Failures: 5, Slow: 4}, Hung: 3, Ramp: 2,
		},
	}
	data, err := json.Marshal(r)
	require.NoError(t, err)
	assert.JSONEq(t, `{"worker":"17.1@host","sequence":3,"task_queue":"tools","state":"recovering","epoch":42,
		"window":{"samples":9,"failures":8,"slow":7},"fast":{"samples":6,"failures":5,"slow":4},"hung":3,"ramp":2}`, string(data))
	var read fleet.Report
	require.NoError(t, json.Unmarshal(data, &read))
	assert.Equal(t, r, read)
}
