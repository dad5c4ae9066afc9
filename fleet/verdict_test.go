package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
)

// config trips on more than half of at least ten calls, or on a p99 over five
// seconds with at least three slow calls among at least ten.
var config = breaker.Config{
	Window: time.Minute, FastWindow: 10 * time.Second,
	FailureRate: 0.5, MinSamples: 10,
	Latency: 5 * time.Second, Quantile: 0.99, MinSlow: 3,
	RampMinSamples: 5,
}.WithDefaults()

// report returns one worker's report. Its fast window is empty, so that only one
// rule can trip.
func report(worker string, samples, failures int) fleet.Report {
	return fleet.Report{
		Worker: worker, Sequence: 1,
		Evidence: breaker.Evidence{Window: breaker.Counts{Samples: samples, Failures: failures}},
	}
}

func hanging(worker string, hung int) fleet.Report {
	return fleet.Report{Worker: worker, Sequence: 1, Evidence: breaker.Evidence{Hung: hung}}
}

// workers returns n reports with the same counts.
func workers(n, samples, failures int) []fleet.Report {
	var all []fleet.Report
	for i := range n {
		all = append(all, report(fmt.Sprintf("worker-%d", i), samples, failures))
	}
	return all
}

func TestJudge_NeedsEvidence(t *testing.T) {
	t.Parallel()
	_, down := fleet.Judge(config.Judge, nil)
	assert.False(t, down)
	_, down = fleet.Judge(config.Judge, workers(50, 0, 0))
	assert.False(t, down)
}

// No other worker has evidence.
func TestJudge_TheOnlyWorkerWithTrafficDecides(t *testing.T) {
	t.Parallel()
	reason, down := fleet.Judge(config.Judge, []fleet.Report{report("a", 20, 12)})
	assert.True(t, down)
	assert.Equal(t, "12 of 20 calls failed in 1m0s (over 50%)", reason.String())

	_, down = fleet.Judge(config.Judge, []fleet.Report{report("a", 20, 10)})
	assert.False(t, down, "a rate equal to the limit does not trip")

	_, down = fleet.Judge(config.Judge, []fleet.Report{hanging("a", 10)})
	assert.True(t, down, "hanging calls are traffic")
}

// One worker cannot open the breakers for a dependency that others reach, whatever
// its counts are.
func TestJudge_OneOutlierNeverDecides(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 3, 10, 50} {
		for name, c := range map[string]struct{ samples, failures int }{
			"many calls, healthy":      {100, 0},
			"one call, healthy":        {1, 0},
			"at the limit":             {20, 10},
			"one call, failed":         {1, 1},
			"one failure in a hundred": {100, 1},
			"too few calls":            {9, 9},
			"half of the calls failed": {18, 9},
		} {
			others := workers(size-1, c.samples, c.failures)
			if _, trips := config.Judge(sum(others)); trips {
				continue // These reports show an outage without the outlier.
			}
			for _, outlier := range []fleet.Report{report("outlier", 20, 20), report("outlier", 100_000, 100_000), hanging("outlier", 1000)} {
				for _, reports := range [][]fleet.Report{append([]fleet.Report{outlier}, others...), append(others[:len(others):len(others)], outlier)} {
					_, down := fleet.Judge(config.Judge, reports)
					assert.False(t, down, "one outlier of %d, the others: %s", size, name)
				}
			}
		}
	}
}

func sum(reports []fleet.Report) breaker.Evidence {
	var e breaker.Evidence
	for _, r := range reports {
		e = e.Add(r.Evidence)
	}
	return e
}

// A thousand workers with one call a minute each see an outage only together. The
// rule needs ten calls, and eleven workers still have ten without any one of them.
func TestJudge_AddsFewCallsOfManyWorkers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{9: false, 10: false, 11: true, 1000: true} {
		_, down := fleet.Judge(config.Judge, workers(n, 1, 1))
		assert.Equal(t, want, down, "%d workers with one failed call each", n)

		var hung []fleet.Report
		for i := range n {
			hung = append(hung, hanging(fmt.Sprintf("worker-%d", i), 1))
		}
		_, down = fleet.Judge(config.Judge, hung)
		assert.Equal(t, want, down, "%d workers with one hanging call each", n)
	}
}

func TestJudge_TwoFailingWorkersDecide(t *testing.T) {
	t.Parallel()
	reason, down := fleet.Judge(config.Judge, []fleet.Report{report("a", 20, 20), report("b", 20, 20)})
	require.True(t, down)
	assert.Equal(t, "40 of 40 calls failed in 1m0s (over 50%)", reason.String(), "the reason has the summed counts")

	reason, down = fleet.Judge(config.Judge, append(workers(4, 20, 20), workers(2, 20, 0)...))
	assert.True(t, down)
	assert.Equal(t, 120, reason.Samples)
}

// A worker without traffic does not count.
func TestJudge_IgnoresIdleReports(t *testing.T) {
	t.Parallel()
	idle := workers(50, 0, 0)
	for name, reports := range map[string][]fleet.Report{
		"one failing":  {report("a", 20, 20)},
		"two failing":  {report("a", 20, 20), report("b", 20, 20)},
		"one of two":   {report("a", 20, 20), report("b", 20, 0)},
		"healthy":      {report("a", 20, 0)},
		"hanging only": {hanging("a", 20)},
	} {
		reason, down := fleet.Judge(config.Judge, reports)
		withIdle, downWithIdle := fleet.Judge(config.Judge, append(idle[:len(idle):len(idle)], reports...))
		assert.Equal(t, down, downWithIdle, name)
		assert.Equal(t, reason, withIdle, name)
	}
}

// The rule of the ramp needs fewer calls.
func TestJudge_UsesTheGivenRule(t *testing.T) {
	t.Parallel()
	reports := workers(6, 1, 1)
	_, down := fleet.Judge(config.Judge, reports)
	assert.False(t, down)
	_, down = fleet.Judge(config.JudgeRamp, reports)
	assert.True(t, down)
}

// randomFleet returns a random fleet of idle, busy and failing workers. Sometimes
// one worker has most of the calls.
func randomFleet(r *rand.Rand) []fleet.Report {
	var reports []fleet.Report
	failing := r.IntN(3) // none, some, most
	for i := range r.IntN(8) {
		e := breaker.Evidence{}
		switch r.IntN(4) {
		case 0: // idle
		case 1:
			e.Window.Samples = r.IntN(5)
		case 2:
			e.Window.Samples = r.IntN(60)
		case 3:
			e.Window.Samples = r.IntN(2000)
		}
		if r.IntN(3) < failing {
			e.Window.Failures = e.Window.Samples
		} else if e.Window.Samples > 0 {
			e.Window.Failures = r.IntN(e.Window.Samples + 1)
		}
		if e.Window.Samples > 0 {
			e.Window.Slow = r.IntN(1 + e.Window.Samples*r.IntN(3)/100)
			e.Fast.Samples = r.IntN(e.Window.Samples + 1)
			e.Fast.Failures = min(e.Fast.Samples, r.IntN(e.Window.Failures+1))
		}
		if r.IntN(10) == 0 {
			e.Hung = r.IntN(30)
		}
		reports = append(reports, fleet.Report{Worker: fmt.Sprint(i), Evidence: e})
	}
	return reports
}

// judgePlainly is a simple version of Judge that computes every sum again.
func judgePlainly(rule fleet.Rule, reports []fleet.Report) bool {
	var withTraffic []fleet.Report
	for _, r := range reports {
		if r.Window.Samples > 0 || r.Hung > 0 {
			withTraffic = append(withTraffic, r)
		}
	}
	holds := func(without int) bool {
		var e breaker.Evidence
		for i, r := range withTraffic {
			if i != without {
				e = e.Add(r.Evidence)
			}
		}
		_, down := rule(e)
		return down
	}
	if len(withTraffic) == 1 {
		return holds(-1)
	}
	for i := -1; i < len(withTraffic); i++ {
		if !holds(i) {
			return false
		}
	}
	return true
}

func TestJudge_TripsWithoutAnyOneWorker(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	tripped, notWithoutOne := 0, 0
	for range 20_000 {
		reports := randomFleet(r)
		rule := config.Judge
		if r.IntN(2) == 0 {
			rule = config.JudgeRamp
		}
		reason, down := fleet.Judge(rule, reports)
		require.Equal(t, judgePlainly(rule, reports), down, "%+v", reports)

		ofAll, bySum := rule(sum(reports))
		if down {
			tripped++
			require.Equal(t, ofAll, reason)
		} else {
			require.Zero(t, reason)
			if bySum {
				notWithoutOne++
			}
		}

		// The order of the reports does not matter.
		shuffled := append([]fleet.Report{}, reports...)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again, downAgain := fleet.Judge(rule, shuffled)
		require.Equal(t, down, downAgain, "%+v", reports)
		require.Equal(t, reason, again)
	}
	// Both results must occur often enough.
	assert.Greater(t, tripped, 1000)
	assert.Greater(t, notWithoutOne, 500)
}

// This is the safety property: if a fleet is healthy without one worker, no report
// of that worker can open the breakers.
func TestJudge_NoReportDecidesForAFleetThatIsHealthyWithoutIt(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	tried := 0
	for range 20_000 {
		others := randomFleet(r)
		if _, down := config.Judge(sum(others)); down || sum(others) == (breaker.Evidence{}) {
			continue
		}
		tried++
		n := 1 + r.IntN(1_000_000)
		outlier := fleet.Report{Worker: "outlier", Evidence: breaker.Evidence{
			Window: breaker.Counts{Samples: n, Failures: n, Slow: n}, Fast: breaker.Counts{Samples: n, Failures: n, Slow: n}, Hung: r.IntN(1000),
		}}
		_, down := fleet.Judge(config.Judge, append(others, outlier))
		require.False(t, down, "%+v", others)
	}
	assert.Greater(t, tried, 1000)
}
