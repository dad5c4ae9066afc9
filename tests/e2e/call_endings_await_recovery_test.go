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

// recoveryWait is the result of awaitRecovery.
type recoveryWait struct {
	Recovered bool
	Error     string
	Took      time.Duration
	Ended     time.Time
}

// awaitRecovery is a workflow that waits until a dependency has recovered.
func awaitRecovery(ctx workflow.Context, dependency string, timeout time.Duration) (recoveryWait, error) {
	started := workflow.Now(ctx)
	recovered, err := toolcall.AwaitRecovery(ctx, dependency, region, timeout)
	return recoveryWait{recovered, summarize(err), workflow.Now(ctx).Sub(started), workflow.Now(ctx)}, nil
}

func testAwaitRecovery(t *testing.T) {
	h := newHarness(t, client.Options{})
	h.addTool("healthy", tripsAfter(2), failOnRequest)
	h.addTool("never-called", tripsAfter(2), failOnRequest)
	h.addTool("recovers", shortCooldown, failOnRequest)
	h.addTool("stays-down", tripsAfter(2), failOnRequest)
	h.start()

	await := func(t *testing.T, dependency string, timeout time.Duration) recoveryWait {
		t.Helper()
		return awaitResult[recoveryWait](t, h.startWorkflow(t, awaitRecovery, dependency, timeout))
	}
	t.Run("no outage", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, toolcall.OK, h.call(t, callSpec{Tool: "healthy"}).outcome())
		for _, dependency := range []string{"healthy", "never-called"} {
			got := await(t, dependency, time.Minute)
			assert.True(t, got.Recovered)
			assert.Empty(t, got.Error)
			assert.Less(t, got.Took, 5*time.Second, "the wait ends at once")
		}
	})
	t.Run("recovers", func(t *testing.T) {
		t.Parallel()
		h.trip(t, "recovers", 2)
		got := await(t, "recovers", time.Minute)
		assert.True(t, got.Recovered)
		assert.Empty(t, got.Error)
		recovering := h.transitions.await(t, breaker.Key{Dependency: "recovers", Region: region}, breaker.Recovering, time.Time{})
		assert.False(t, got.Ended.Before(recovering.At), "the wait lasts for the cooldown")
		assert.Less(t, got.Took, 30*time.Second)
		assert.Contains(t, []breaker.State{breaker.Recovering, breaker.Closed}, h.snapshot("recovers").State)
		assert.Equal(t, toolcall.OK, h.call(t, callSpec{Tool: "recovers"}).outcome())
	})
	t.Run("stays down", func(t *testing.T) {
		t.Parallel()
		h.trip(t, "stays-down", 2)
		got := await(t, "stays-down", 4*time.Second)
		assert.False(t, got.Recovered)
		assert.Empty(t, got.Error, "an exceeded timeout is no error")
		assert.Greater(t, got.Took, time.Second)
		assert.Less(t, got.Took, 4*time.Second+shortTimeout/4, "the wait ends with its timeout")
		assert.Equal(t, breaker.Open, h.snapshot("stays-down").State)
	})
	t.Run("unknown dependency", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, "UnknownDependency non-retryable", await(t, "misspelt", 5*time.Second).Error)
	})
}
