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

// One worker's trip is everyone's: those that run, and one that comes later.
func TestFleetSharesOneVerdict(t *testing.T) {
	t.Parallel()
	const push = 500 * time.Millisecond // from one worker's opening to another's
	s := newStory(t, 10)
	one, other := s.openDesk("tools-1", touchy), s.openDesk("tools-2", touchy)

	opened := one.trip()
	heard := other.edges.await(t, euWest, breaker.Open, opened.At)
	refused := other.call(carriertools.GetDeliveryStatus)

	assert.True(t, opened.Local)
	assert.False(t, heard.Local)
	if *full {
		assert.LessOrEqual(t, heard.At.Sub(opened.At), push+busyMachine)
	}
	require.Equal(t, toolcall.Refused, refused.Outcome())
	assert.Empty(t, other.carrier.Calls(), "no call of its own was needed")

	late := s.openDesk("tools-3", touchy)
	refused = late.call(carriertools.GetDeliveryStatus)
	require.Equal(t, toolcall.Refused, refused.Outcome(), "the first call of a worker started in the middle of an outage")
	assert.Empty(t, late.carrier.Calls())

	table := s.table()
	require.Len(t, table.Entries, 1)
	assert.Equal(t, euWest, table.Entries[0].Key)
	assert.Equal(t, breaker.Open, table.Entries[0].Verdict.State)
	assert.Equal(t, breaker.RuleFailureRate, table.Entries[0].Verdict.Reason.Rule)
	assert.Equal(t, probeworkflow.OutageID(euWest), table.Entries[0].Verdict.Outage)
	t.Logf("one worker's opening to another's: %v", heard.At.Sub(opened.At))
}

func TestToolsOfOneDependencyShareItsBreaker(t *testing.T) {
	t.Parallel()
	d := newStory(t, 10).openDesk("tools", touchy)
	d.trip() // through get_delivery_status alone
	reached := len(d.carrier.Calls())

	for _, tool := range []string{carriertools.GetTrackingEvents, carriertools.CreateReturnLabel} {
		refused := d.call(tool)
		require.Equal(t, toolcall.Refused, refused.Outcome(), tool)
		assert.Equal(t, tool, refused.Unavailable.Tool)
	}
	assert.Len(t, d.carrier.Calls(), reached)
}
