package breaker

import (
	"slices"
	"time"
)

// Suggestion is the result of [Suggest].
type Suggestion struct {
	// Latency and FailureRate are the suggested limits.
	Latency     time.Duration `json:"latency_ns"`
	FailureRate float64       `json:"failure_rate"`
	// Tripped is the share of the past windows that would have tripped with the suggested
	// limits, TrippedNow the share with those of the given configuration.
	Tripped    float64 `json:"tripped"`
	TrippedNow float64 `json:"tripped_now"`
	// Windows is how many past windows held at least Config.MinSamples calls. The others
	// are left out of every share.
	Windows int `json:"windows"`
}

const (
	// suggestedTrips is the share of past windows that each suggested limit may trip.
	suggestedTrips = 0.01
	// suggestedMargin is how many times the usual value a suggested limit is at least.
	suggestedMargin = 2
)

// niceLatencies and niceRates are the round values that Suggest chooses from.
var (
	niceLatencies = []float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 8}
	niceRates     = []float64{0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}
)

// Suggest proposes limits from past windows, taken by [Breaker.Observe] once per window
// in [Observe] mode. It proposes the lowest limits that are at least twice the usual
// value and that at most 1 % of the past windows would have passed. The usual value is
// the median over the windows of the latency quantile, and of the failure rate. Include
// windows in which the dependency was down, because the shares depend on them.
//
// It uses c's Quantile, MinSamples and MinSlow on whole windows; the fast horizon can
// trip a little more often. Latencies are known to within 5 %. If no window has enough
// calls, the suggestion is c's own limits.
func Suggest(c Config, windows []Observation) Suggestion {
	c = c.WithDefaults()
	s := Suggestion{Latency: c.Latency, FailureRate: c.FailureRate}
	var telling []Observation
	for _, w := range windows {
		if w.Samples >= c.MinSamples {
			telling = append(telling, w)
		}
	}
	if s.Windows = len(telling); s.Windows == 0 {
		return s
	}
	s.TrippedNow = tripped(c, telling)

	quantiles := make([]time.Duration, len(telling))
	rates := make([]float64, len(telling))
	for i := range telling {
		quantiles[i] = telling[i].Latencies.Quantile(c.Quantile)
		rates[i] = telling[i].failureRate()
	}
	slices.Sort(quantiles)
	slices.Sort(rates)
	usual := len(telling) / 2

	byLatency, byRate := c, c
	byLatency.FailureRate = never
	for _, byLatency.Latency = range latenciesFrom(suggestedMargin * quantiles[usual]) {
		if tripped(byLatency, telling) <= suggestedTrips {
			break
		}
	}
	byRate.MinSlow = int(forever >> 1)
	for _, byRate.FailureRate = range niceRates {
		if byRate.FailureRate >= suggestedMargin*rates[usual] && tripped(byRate, telling) <= suggestedTrips {
			break
		}
	}
	s.Latency, s.FailureRate = byLatency.Latency, byRate.FailureRate
	c.Latency, c.FailureRate = s.Latency, s.FailureRate
	s.Tripped = tripped(c, telling)
	return s
}

// never is a failure rate that cannot be exceeded.
const never = 1

// latenciesFrom returns the values to choose from, rising, all of them at least d.
func latenciesFrom(d time.Duration) []time.Duration {
	var all []time.Duration
	for decade := minDuration; decade <= time.Hour; decade *= 10 {
		for _, n := range niceLatencies {
			if l := time.Duration(n * float64(decade)); l >= d {
				all = append(all, l)
			}
		}
	}
	if len(all) == 0 {
		all = append(all, d)
	}
	return all
}

// tripped is the share of windows that would trip with c.
func tripped(c Config, windows []Observation) float64 {
	n := 0
	for i := range windows {
		w := &windows[i]
		counts := w.Counts
		// The distribution holds fewer calls than the window, so its share is used.
		if recorded := w.Latencies.Count(); recorded > 0 {
			counts.Slow = w.Latencies.Over(c.Latency) * counts.Samples / recorded
		}
		if _, trip := c.Judge(Evidence{Window: counts}); trip {
			n++
		}
	}
	return float64(n) / float64(len(windows))
}
