package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// parking is how a parked run went on.
type parking struct {
	Recovered bool
	Error     string
	Took      time.Duration
	Ended     time.Time
}

// park waits for a dependency.
func park(ctx workflow.Context, dependency string, timeout time.Duration) (parking, error) {
	begun := workflow.Now(ctx)
	recovered, err := toolcall.AwaitRecovery(ctx, dependency, region, timeout)
	return parking{recovered, inShort(err), workflow.Now(ctx).Sub(begun), workflow.Now(ctx)}, nil
}

func testEndingsParked(t *testing.T) {
	b := newBench(t, client.Options{})
	b.tool("healthy", opened(2), obliging)
	b.tool("never-called", opened(2), obliging)
	b.tool("recovers", brief, obliging)
	b.tool("stays-down", opened(2), obliging)
	b.open()

	parked := func(t *testing.T, dependency string, timeout time.Duration) parking {
		t.Helper()
		return await[parking](t, b.startAs(t, park, dependency, timeout))
	}
	t.Run("no outage", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, toolcall.OK, b.call(t, plan{Tool: "healthy"}).outcome())
		for _, dependency := range []string{"healthy", "never-called"} {
			got := parked(t, dependency, time.Minute)
			assert.True(t, got.Recovered)
			assert.Empty(t, got.Error)
			assert.Less(t, got.Took, 5*time.Second, "at once")
		}
	})
	t.Run("recovers", func(t *testing.T) {
		t.Parallel()
		b.trip(t, "recovers", 2)
		got := parked(t, "recovers", time.Minute)
		assert.True(t, got.Recovered)
		assert.Empty(t, got.Error)
		recovering := b.edges.await(t, breaker.Key{Dependency: "recovers", Region: region}, breaker.Recovering, time.Time{})
		assert.False(t, got.Ended.Before(recovering.At), "not during the cooldown")
		assert.Less(t, got.Took, 30*time.Second)
		assert.Contains(t, []breaker.State{breaker.Recovering, breaker.Closed}, b.breaker("recovers").State)
		assert.Equal(t, toolcall.OK, b.call(t, plan{Tool: "recovers"}).outcome())
	})
	t.Run("stays down", func(t *testing.T) {
		t.Parallel()
		b.trip(t, "stays-down", 2)
		got := parked(t, "stays-down", 4*time.Second)
		assert.False(t, got.Recovered)
		assert.Empty(t, got.Error, "not to have recovered is no error")
		assert.Greater(t, got.Took, time.Second)
		assert.Less(t, got.Took, 4*time.Second+soon/4, "no longer than asked")
		assert.Equal(t, breaker.Open, b.breaker("stays-down").State)
	})
	t.Run("nobody's dependency", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "UnknownDependency non-retryable", parked(t, "misspelt", 5*time.Second).Error)
	})
}
