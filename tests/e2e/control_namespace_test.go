package e2e_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/interceptor"
)

// Workers of two namespaces share the breaker workflows of a third namespace, in which
// the synthetic calls run too.
func TestControlNamespaceIsShared(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	var probes atomic.Int64
	down.Store(true)
	do := func(ctx context.Context, _ bool) (string, error) {
		if breaker.IsProbe(ctx) {
			probes.Add(1)
		}
		if down.Load() {
			return "", errors.New("no connection")
		}
		return "fine", nil
	}
	control := newHarness(t, client.Options{})
	start := func() *harness {
		h := newHarness(t, client.Options{})
		h.config.Control = control.client
		h.addTool("get", breaker.Config{MinSamples: 4, Window: time.Hour, Cooldown: 2 * time.Second, RampStep: time.Second, ProbeInterval: 100 * time.Millisecond}, do,
			func(d *interceptor.Dependency) { d.Probe = interceptor.Synthetic("get", false) })
		h.start()
		return h
	}
	one, other := start(), start()

	one.trip(t, "get", 4)
	key := breaker.Key{Dependency: "get", Region: region}
	received := other.transitions.await(t, key, breaker.Open, time.Time{})
	assert.False(t, received.Local)
	require.NotEmpty(t, control.table().Entries, "the board is in the control namespace")
	for _, h := range []*harness{one, other} {
		_, err := h.client.QueryWorkflow(t.Context(), fleet.BoardID, "", fleet.TableQuery)
		assert.Error(t, err, "no other namespace has a board")
	}

	repaired := time.Now()
	down.Store(false)
	for _, h := range []*harness{one, other} {
		h.transitions.await(t, key, breaker.Closed, repaired)
	}
	assert.Positive(t, probes.Load(), "the synthetic calls of probes")
}
