package breaker

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSnapshot(t *testing.T) {
	r := newRig(t, Config{})
	for n := range 100 {
		outcome := Success
		if n%10 == 9 {
			outcome = Failure
		}
		r.call(outcome, time.Duration(n+1)*time.Millisecond)
	}
	r.allow()
	s := r.Snapshot()
	require.Equal(t, testKey, s.Key)
	require.Equal(t, 100, s.Evidence.Window.Samples)
	require.Equal(t, int64(100), s.Counted)
	require.Equal(t, 0.1, s.FailureRate)
	require.Equal(t, 1, s.InFlight)
	require.Equal(t, 100, s.Share)
	require.InEpsilon(t, 50*time.Millisecond, s.Latency.P50, 0.05)
	require.InEpsilon(t, 90*time.Millisecond, s.Latency.P90, 0.05)
	require.InEpsilon(t, 99*time.Millisecond, s.Latency.P99, 0.05)
	require.Equal(t, 100*time.Millisecond, s.Latency.Max)

	text, err := json.Marshal(s)
	require.NoError(t, err)
	var read Snapshot
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, s, read)
}

// Displayed latencies expire as the window does.
func TestLatenciesExpire(t *testing.T) {
	r := newRig(t, Config{})
	r.call(Success, 4*time.Second)
	r.clock.advance(29 * time.Second)
	require.Equal(t, 4*time.Second, r.Snapshot().Latency.Max)
	r.clock.advance(32 * time.Second)
	require.Zero(t, r.Snapshot().Latency)
	r.call(Success, time.Second)
	require.Equal(t, time.Second, r.Snapshot().Latency.Max)
}

// A busy key records one call in 128 with a weight of 128, and the quantiles stay
// close.
func TestBusyKeysRecordSome(t *testing.T) {
	r := newRig(t, Config{Latency: 10 * time.Second})
	const calls = 50_000
	for n := range calls {
		p := r.allow()
		p.begun -= time.Duration(n%1000+1) * time.Millisecond
		p.Done(Success)
	}
	require.Equal(t, calls, r.Evidence().Window.Samples)
	o := r.Observe()
	require.InEpsilon(t, calls, o.Latencies.Count(), 0.02)
	l := r.Snapshot().Latency
	require.InEpsilon(t, 500*time.Millisecond, l.P50, 0.06)
	require.InEpsilon(t, 990*time.Millisecond, l.P99, 0.06)
}

func TestStateText(t *testing.T) {
	for s := Closed; s <= ForcedClosed; s++ {
		text, err := s.MarshalText()
		require.NoError(t, err)
		var read State
		require.NoError(t, read.UnmarshalText(text))
		require.Equal(t, s, read)
	}
	require.Error(t, new(State).UnmarshalText([]byte("ajar")))
}
