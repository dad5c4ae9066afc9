package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func observed(samples, failures int, latencies ...time.Duration) Observation {
	o := Observation{Counts: Counts{Samples: samples, Failures: failures}}
	for _, l := range latencies {
		o.Latencies.Add(l, samples/len(latencies))
	}
	return o
}

func TestSuggestWithoutAWindowOfEnoughCalls(t *testing.T) {
	c := Config{Latency: 3 * time.Second, FailureRate: 0.4}
	require.Equal(t, Suggestion{Latency: 3 * time.Second, FailureRate: 0.4}, Suggest(c, []Observation{observed(2, 2, time.Second)}))
}

// A suggestion trips at most the allowed share of the past windows, and its shares are
// those of judging each window.
func TestSuggestedLimitsOnThePast(t *testing.T) {
	var windows []Observation
	for n := range 1000 {
		latency := 200 * time.Millisecond
		if n%50 == 0 {
			latency = 7 * time.Second // 2 % of the windows: too common to trip on
		}
		failures := 8
		if n%40 == 0 {
			failures = 47 // likewise
		}
		windows = append(windows, observed(100, failures, latency))
	}
	s := Suggest(Config{}, windows)
	require.Equal(t, 1000, s.Windows)
	require.Equal(t, 8*time.Second, s.Latency)
	require.Equal(t, 0.5, s.FailureRate)
	require.Zero(t, s.Tripped)
	require.Equal(t, 0.02, s.TrippedNow, "the default of 5 s")
}

func TestObserveGivesTheWindow(t *testing.T) {
	r := newRig(t, Config{Mode: Observe})
	for range 20 {
		r.call(Success, 100*time.Millisecond)
	}
	r.call(Failure, time.Second)
	o := r.Observe()
	require.Equal(t, Counts{Samples: 21, Failures: 1}, o.Counts)
	require.Equal(t, 21, o.Latencies.Count())
	require.Equal(t, 1, o.Latencies.Over(500*time.Millisecond))
}
