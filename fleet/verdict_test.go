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

// report is one worker's: how many calls, how many of them failed. The fast
// window saw none of it, so that one rule decides.
func report(worker string, samples, failures int) fleet.Report {
	return fleet.Report{
		Worker: worker, Sequence: 1,
		Evidence: breaker.Evidence{Window: breaker.Counts{Samples: samples, Failures: failures}},
	}
}

func hanging(worker string, hung int) fleet.Report {
	return fleet.Report{Worker: worker, Sequence: 1, Evidence: breaker.Evidence{Hung: hung}}
}

// workers gives n reports that are all alike.
func workers(n, samples, failures int) []fleet.Report {
	var all []fleet.Report
	for i := range n {
		all = append(all, report(fmt.Sprintf("worker-%d", i), samples, failures))
	}
	return all
}

func TestConvict_NobodyOnNothing(t *testing.T) {
	t.Parallel()
	_, guilty := fleet.Judge(config.Judge, nil)
	assert.False(t, guilty)
	_, guilty = fleet.Judge(config.Judge, workers(50, 0, 0))
	assert.False(t, guilty)
}

// There is nobody to contradict it.
func TestConvict_AWorkerAloneWithTrafficConvicts(t *testing.T) {
	t.Parallel()
	reason, guilty := fleet.Judge(config.Judge, []fleet.Report{report("a", 20, 12)})
	assert.True(t, guilty)
	assert.Equal(t, "12 of 20 calls failed in 1m0s (over 50%)", reason.String())

	_, guilty = fleet.Judge(config.Judge, []fleet.Report{report("a", 20, 10)})
	assert.False(t, guilty, "by the rule, as ever")

	_, guilty = fleet.Judge(config.Judge, []fleet.Report{hanging("a", 10)})
	assert.True(t, guilty, "calls that hang are traffic")
}

// No single worker can convict a dependency that others reach, however loud it is.
func TestConvict_OneBadWorkerNeverConvicts(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 3, 10, 50} {
		for name, c := range map[string]struct{ samples, failures int }{
			"busy and healthy":        {100, 0},
			"thin and healthy":        {1, 0},
			"just under the rate":     {20, 10},
			"one call, which failed":  {1, 1},
			"as healthy as any is":    {100, 1},
			"too thin to say it":      {9, 9},
			"half of what it can see": {18, 9},
		} {
			others := workers(size-1, c.samples, c.failures)
			if _, alone := config.Judge(sum(others)); alone {
				continue // Then these convict without it, and rightly.
			}
			for _, bad := range []fleet.Report{report("bad", 20, 20), report("bad", 100_000, 100_000), hanging("bad", 1000)} {
				for _, reports := range [][]fleet.Report{append([]fleet.Report{bad}, others...), append(others[:len(others):len(others)], bad)} {
					_, guilty := fleet.Judge(config.Judge, reports)
					assert.False(t, guilty, "one bad of %d, the others %s", size, name)
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

// A thousand workers with a call a minute each see an outage only together. Ten
// calls make the rule, and the eleventh worker makes it hold without any one.
func TestConvict_ThinTrafficCountsTogether(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{9: false, 10: false, 11: true, 1000: true} {
		_, guilty := fleet.Judge(config.Judge, workers(n, 1, 1))
		assert.Equal(t, want, guilty, "%d workers with one failed call each", n)

		var hung []fleet.Report
		for i := range n {
			hung = append(hung, hanging(fmt.Sprintf("worker-%d", i), 1))
		}
		_, guilty = fleet.Judge(config.Judge, hung)
		assert.Equal(t, want, guilty, "%d workers with one hanging call each", n)
	}
}

func TestConvict_TwoWorkersInTroubleConvict(t *testing.T) {
	t.Parallel()
	reason, guilty := fleet.Judge(config.Judge, []fleet.Report{report("a", 20, 20), report("b", 20, 20)})
	require.True(t, guilty)
	assert.Equal(t, "40 of 40 calls failed in 1m0s (over 50%)", reason.String(), "the reason is the sum's")

	reason, guilty = fleet.Judge(config.Judge, append(workers(4, 20, 20), workers(2, 20, 0)...))
	assert.True(t, guilty)
	assert.Equal(t, 120, reason.Samples)
}

// A worker without traffic neither contradicts nor agrees.
func TestConvict_IdleReportsDoNotMatter(t *testing.T) {
	t.Parallel()
	idle := workers(50, 0, 0)
	for name, reports := range map[string][]fleet.Report{
		"one alone":    {report("a", 20, 20)},
		"two":          {report("a", 20, 20), report("b", 20, 20)},
		"one of two":   {report("a", 20, 20), report("b", 20, 0)},
		"healthy":      {report("a", 20, 0)},
		"hanging only": {hanging("a", 20)},
	} {
		reason, guilty := fleet.Judge(config.Judge, reports)
		withIdle, guiltyWithIdle := fleet.Judge(config.Judge, append(idle[:len(idle):len(idle)], reports...))
		assert.Equal(t, guilty, guiltyWithIdle, name)
		assert.Equal(t, reason, withIdle, name)
	}
}

// Any rule will do, as the ramp's, which asks for fewer calls.
func TestConvict_JudgesByTheRuleItIsGiven(t *testing.T) {
	t.Parallel()
	reports := workers(6, 1, 1)
	_, guilty := fleet.Judge(config.Judge, reports)
	assert.False(t, guilty)
	_, guilty = fleet.Judge(config.JudgeRamp, reports)
	assert.True(t, guilty)
}

// randomFleet draws a fleet in which anything goes: idle workers, thin ones,
// broken ones, and now and then one that drowns out all others.
func randomFleet(r *rand.Rand) []fleet.Report {
	var reports []fleet.Report
	broken := r.IntN(3) // nobody, some, most
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
		if r.IntN(3) < broken {
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

// convictPlainly is the rule as the design states it, with every sum made anew.
func convictPlainly(rule fleet.Rule, reports []fleet.Report) bool {
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
		_, guilty := rule(e)
		return guilty
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

func TestConvict_HoldsWithAnyOneWorkerLeftOut(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	convicted, acquittedByOne := 0, 0
	for range 20_000 {
		reports := randomFleet(r)
		rule := config.Judge
		if r.IntN(2) == 0 {
			rule = config.JudgeRamp
		}
		reason, guilty := fleet.Judge(rule, reports)
		require.Equal(t, convictPlainly(rule, reports), guilty, "%+v", reports)

		ofAll, bySum := rule(sum(reports))
		if guilty {
			convicted++
			require.Equal(t, ofAll, reason)
		} else {
			require.Zero(t, reason)
			if bySum {
				acquittedByOne++
			}
		}

		// Who reported first decides nothing.
		shuffled := append([]fleet.Report{}, reports...)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		again, guiltyAgain := fleet.Judge(rule, shuffled)
		require.Equal(t, guilty, guiltyAgain, "%+v", reports)
		require.Equal(t, reason, again)
	}
	// The draw must reach both ends, or it proves nothing.
	assert.Greater(t, convicted, 1000)
	assert.Greater(t, acquittedByOne, 500)
}

// The safety property itself, without the rule in between: whatever one worker
// sends, it cannot convict a fleet that is healthy without it.
func TestConvict_NoReportConvictsAFleetThatIsHealthyWithoutIt(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	tried := 0
	for range 20_000 {
		others := randomFleet(r)
		if _, guilty := config.Judge(sum(others)); guilty || sum(others) == (breaker.Evidence{}) {
			continue
		}
		tried++
		n := 1 + r.IntN(1_000_000)
		liar := fleet.Report{Worker: "liar", Evidence: breaker.Evidence{
			Window: breaker.Counts{Samples: n, Failures: n, Slow: n}, Fast: breaker.Counts{Samples: n, Failures: n, Slow: n}, Hung: r.IntN(1000),
		}}
		_, guilty := fleet.Judge(config.Judge, append(others, liar))
		require.False(t, guilty, "%+v", others)
	}
	assert.Greater(t, tried, 1000)
}
