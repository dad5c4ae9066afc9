package breaker

import (
	"slices"
	"time"
)

// Suggestion is what [Suggest] makes of past windows.
type Suggestion struct {
	// Latency and FailureRate are the limits suggested.
	Latency     time.Duration `json:"latency_ns"`
	FailureRate float64       `json:"failure_rate"`
	// Tripped is the share of the past windows that would have tripped with these
	// limits, TrippedNow the share with the limits of the configuration given.
	Tripped    float64 `json:"tripped"`
	TrippedNow float64 `json:"tripped_now"`
	// Windows is how many past windows held Config.MinSamples calls; the others
	// say nothing and are left out of every share.
	Windows int `json:"windows"`
}

const (
	// suggestedTrips is the share of past windows that a suggested limit may trip,
	// each of the two.
	suggestedTrips = 0.01
	// suggestedMargin is how far over what is usual a suggested limit lies: what
	// takes twice as long, or fails twice as often, is not usual any more.
	suggestedMargin = 2
)

// niceLatencies and niceRates are the limits that Suggest may give: figures that
// people remember.
var (
	niceLatencies = []float64{1, 1.5, 2, 2.5, 3, 4, 5, 6, 8}
	niceRates     = []float64{0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}
)

// Suggest gives limits from what was observed, as by [Breaker.Observe] once a
// window in [Observe] mode: the lowest ones that lie at twice what is usual and
// that not more than one in a hundred of the past windows would have passed.
// Usual is the median over the windows of the latency quantile, and of the
// failure rate. Windows in which the dependency was down belong in: they are
// what the shares are about.
//
// It judges by c's Quantile, MinSamples and MinSlow over whole windows; the fast
// horizon can trip somewhat more often. Latencies are known to within 5 %. With
// no window that says anything the suggestion is c's own limits.
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
		rates[i] = telling[i].FailureRate()
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

// never is a failure rate that nothing is over.
const never = 1

// latenciesFrom gives the figures to choose from, rising, the first at least d.
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

// tripped is the share of windows that trip c.
func tripped(c Config, windows []Observation) float64 {
	n := 0
	for i := range windows {
		w := &windows[i]
		counts := w.Counts
		// The distribution holds fewer calls than the window: its share counts.
		if recorded := w.Latencies.Count(); recorded > 0 {
			counts.Slow = w.Latencies.Over(c.Latency) * counts.Samples / recorded
		}
		if _, trip := c.Judge(Evidence{Window: counts}); trip {
			n++
		}
	}
	return float64(n) / float64(len(windows))
}
