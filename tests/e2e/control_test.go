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
	"github.com/toolbreaker/toolbreaker/interceptor"
)

// Teams have namespaces of their own, and call the same carrier. The breaker's
// workflows run in a third one, and so do the synthetic calls.
func TestNamespacesShareAVerdict(t *testing.T) {
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
	control := newBench(t, client.Options{})
	open := func() *bench {
		b := newBench(t, client.Options{})
		b.config.Control = control.client
		b.tool("get", breaker.Config{MinSamples: 4, Window: time.Hour, Cooldown: 2 * time.Second, RampStep: time.Second, ProbeInterval: 100 * time.Millisecond}, do,
			func(d *interceptor.Dependency) { d.Probe = interceptor.Synthetic("get", false) })
		b.open()
		return b
	}
	one, other := open(), open()

	one.trip(t, "get", 4)
	key := breaker.Key{Dependency: "get", Region: region}
	heard := other.edges.await(t, key, breaker.Open, time.Time{})
	assert.False(t, heard.Local)
	require.NotEmpty(t, control.table().Entries, "the board is in the control namespace")
	for _, b := range []*bench{one, other} {
		_, err := b.client.QueryWorkflow(t.Context(), "breaker-board", "", "table")
		assert.Error(t, err, "and in no other")
	}

	repaired := time.Now()
	down.Store(false)
	for _, b := range []*bench{one, other} {
		b.edges.await(t, key, breaker.Closed, repaired)
	}
	assert.Positive(t, probes.Load(), "synthetic calls were made")
}
