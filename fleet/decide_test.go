package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolbreaker/toolbreaker/fleet"
)

// answered returns the reports as answers to a round.
func answered(round int64, reports []fleet.Report) []fleet.Report {
	for i := range reports {
		reports[i].Round = round
	}
	return reports
}

func TestDecide(t *testing.T) {
	t.Parallel()
	small := func(workers int) fleet.Poll { return fleet.Poll{Round: 7, OneIn: 1, Workers: workers} }
	large := fleet.Poll{Round: 7, OneIn: 31, Workers: 1000}
	const (
		early = 100 * time.Millisecond
		due   = 500 * time.Millisecond
		late  = 1500 * time.Millisecond
	)
	oneOutlier := append(workers(3, 20, 0), report("bad", 20, 20))
	for name, c := range map[string]struct {
		poll    fleet.Poll
		reports []fleet.Report
		since   time.Duration
		want    fleet.PollResult
	}{
		"the only worker answered":                       {small(1), workers(1, 10, 6), 0, fleet.Down},
		"all workers answered":                           {small(4), workers(4, 10, 6), early, fleet.Down},
		"some answered, too early":                       {small(4), workers(3, 10, 6), early, fleet.Undecided},
		"some answered, the others have no traffic":      {small(4), workers(3, 10, 6), due, fleet.Down},
		"unknown fleet size, too early":                  {small(0), workers(3, 10, 6), early, fleet.Undecided},
		"unknown fleet size, first answers due":          {small(0), workers(3, 10, 6), due, fleet.Down},
		"one outlier, first answers due":                 {small(4), oneOutlier, due, fleet.Undecided},
		"one outlier, after the minimum time":            {small(4), oneOutlier, late, fleet.NotDown},
		"no answer":                                      {small(4), nil, late, fleet.NotDown},
		"over the limit with too few calls":              {small(4), workers(4, 1, 1), late, fleet.Undecided},
		"over the limit with too few calls for a window": {small(4), workers(4, 1, 1), time.Minute, fleet.NotDown},
		"unasked reports outside the sample":             {large, workers(100, 20, 20), early, fleet.Undecided},
		"half a sample":                                  {large, answered(7, workers(12, 100, 60)), early, fleet.Down},
		"less than half a sample":                        {large, answered(7, workers(11, 100, 60)), early, fleet.Undecided},
		"less than half a sample, first answers due":     {large, answered(7, workers(8, 100, 60)), due, fleet.Down},
		"a sample of another round":                      {large, answered(6, workers(12, 100, 60)), early, fleet.Undecided},
		"a sample with too few calls":                    {large, answered(7, workers(29, 10, 1)), due, fleet.TooFewCalls},
		"a sample with just enough calls":                {large, answered(7, workers(30, 10, 6)), due, fleet.Down},
		"a healthy sample, after the minimum time":       {large, answered(7, workers(30, 100, 1)), late, fleet.NotDown},
		"a healthy sample, first answers due":            {large, answered(7, workers(30, 100, 1)), due, fleet.Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, reason := fleet.Decide(config, c.poll, c.reports, c.since)
			assert.Equal(t, c.want, result)
			assert.Equal(t, result == fleet.Down, reason.Rule != "")
		})
	}
}

// A poll is decided at its last milestone, whatever the answers are.
func TestDecide_EndsByTime(t *testing.T) {
	t.Parallel()
	last := fleet.Milestones(config)[len(fleet.Milestones(config))-1]
	for _, reports := range [][]fleet.Report{nil, workers(3, 1, 1), workers(3, 100, 100), {hanging("a", 2)}} {
		result, _ := fleet.Decide(config, fleet.Poll{OneIn: 1}, reports, last)
		assert.Contains(t, []fleet.PollResult{fleet.Down, fleet.NotDown}, result)
	}
	short := config
	short.Window = 10 * time.Millisecond
	assert.IsIncreasing(t, fleet.Milestones(short))
}

func TestOutliers_AreWorkersWhoseOwnReportTrips(t *testing.T) {
	t.Parallel()
	reports := []fleet.Report{report("healthy", 20, 0), report("bad", 20, 20), report("few", 3, 3), hanging("hung", 10)}
	assert.Equal(t, []string{"bad", "hung"}, fleet.Outliers(config, reports))
}

// A window of ten seconds is half full of failures after five. If the poll ended
// before, the outage would have to be suspected again.
func TestDecide_WaitsWhileTheEvidenceRises(t *testing.T) {
	t.Parallel()
	p := fleet.Poll{OneIn: 1, Workers: 3}
	for _, c := range []struct {
		reports []fleet.Report
		rising  bool
	}{
		{workers(3, 100, 20), true},
		{workers(3, 100, 5), false},
		{[]fleet.Report{report("a", 100, 0), report("b", 100, 1), report("c", 100, 40)}, false},
		{[]fleet.Report{report("a", 100, 0), report("b", 100, 40), report("c", 100, 40)}, true},
		{[]fleet.Report{report("a", 100, 30), report("b", 100, 40), report("c", 100, 40)}, true},
	} {
		result, _ := fleet.Decide(config, p, c.reports, 1500*time.Millisecond)
		assert.Equal(t, c.rising, result == fleet.Undecided, "%v", c.reports)
		result, _ = fleet.Decide(config, p, c.reports, 10*time.Second)
		assert.Equal(t, fleet.NotDown, result)
	}
}

// Part of a large fleet cannot reach the dependency, as after a network failure of
// one zone.
func TestDecide_ASampleDecidesAsTheWholeFleetWould(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bad  int
		want fleet.PollResult
	}{{0, fleet.NotDown}, {100, fleet.NotDown}, {250, fleet.NotDown}, {750, fleet.Down}, {1000, fleet.Down}} {
		wrong := 0
		for round := range int64(200) {
			p := fleet.Poll{Round: round + 1, OneIn: fleet.OneIn(1000), Workers: 1000}
			var reports []fleet.Report
			for w := range 1000 {
				r := report(fmt.Sprintf("worker-%d", w), 50, 0)
				if w < c.bad {
					r.Window.Failures = 50
				}
				if p.Includes(r.Worker) {
					r.Round = p.Round
					reports = append(reports, r)
				}
			}
			if result, _ := fleet.Decide(config, p, reports, config.FastWindow); result != c.want {
				wrong++
			}
		}
		assert.LessOrEqual(t, wrong, 4, "of 200, with %d of 1000 workers failing", c.bad)
	}
}
