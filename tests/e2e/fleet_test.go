package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// A trip of one worker opens the breakers of all workers, also of workers that start
// later.
func TestFleetSharesOneVerdict(t *testing.T) {
	t.Parallel()
	const push = 500 * time.Millisecond // between the openings of two workers
	s := newScenario(t, 10)
	one, other := s.startToolWorker("tools-1", tripsAfterThree), s.startToolWorker("tools-2", tripsAfterThree)

	opened := one.trip()
	received := other.transitions.await(t, euWest, breaker.Open, opened.At)
	refused := other.call(carriertools.GetDeliveryStatus)

	assert.True(t, opened.Local)
	assert.False(t, received.Local)
	if *full {
		assert.LessOrEqual(t, received.At.Sub(opened.At), push+schedulingDelay)
	}
	require.Equal(t, toolcall.Refused, refused.Outcome())
	assert.Empty(t, other.carrier.Calls(), "the breaker opens without a call of its worker")

	late := s.startToolWorker("tools-3", tripsAfterThree)
	refused = late.call(carriertools.GetDeliveryStatus)
	require.Equal(t, toolcall.Refused, refused.Outcome(), "first call of a worker that starts during the outage")
	assert.Empty(t, late.carrier.Calls())

	table := s.table()
	require.Len(t, table.Entries, 1)
	assert.Equal(t, euWest, table.Entries[0].Key)
	assert.Equal(t, breaker.Open, table.Entries[0].Verdict.State)
	assert.Equal(t, breaker.RuleFailureRate, table.Entries[0].Verdict.Reason.Rule)
	assert.Equal(t, probeworkflow.OutageID(euWest), table.Entries[0].Verdict.Outage)
	t.Logf("time between the openings of two workers: %v", received.At.Sub(opened.At))
}

func TestToolsOfOneDependencyShareItsBreaker(t *testing.T) {
	t.Parallel()
	w := newScenario(t, 10).startToolWorker("tools", tripsAfterThree)
	w.trip() // calls get_delivery_status
	reached := len(w.carrier.Calls())

	for _, tool := range []string{carriertools.GetTrackingEvents, carriertools.CreateReturnLabel} {
		refused := w.call(tool)
		require.Equal(t, toolcall.Refused, refused.Outcome(), tool)
		assert.Equal(t, tool, refused.Unavailable.Tool)
	}
	assert.Len(t, w.carrier.Calls(), reached)
}
