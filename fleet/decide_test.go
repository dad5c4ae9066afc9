package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolbreaker/toolbreaker/fleet"
)

// answered marks reports as answers to a round.
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
		ripe  = 500 * time.Millisecond
		late  = 1500 * time.Millisecond
	)
	oneBad := append(workers(3, 20, 0), report("bad", 20, 20))
	for name, c := range map[string]struct {
		question fleet.Poll
		reports  []fleet.Report
		since    time.Duration
		want     fleet.PollResult
	}{
		"the only worker":                            {small(1), workers(1, 10, 6), 0, fleet.Down},
		"all of them":                                {small(4), workers(4, 10, 6), early, fleet.Down},
		"some of them, too early":                    {small(4), workers(3, 10, 6), early, fleet.Undecided},
		"some of them, the others have no traffic":   {small(4), workers(3, 10, 6), ripe, fleet.Down},
		"nobody knows how many there are":            {small(0), workers(3, 10, 6), early, fleet.Undecided},
		"nor who is still to answer":                 {small(0), workers(3, 10, 6), ripe, fleet.Down},
		"one bad worker":                             {small(4), oneBad, ripe, fleet.Undecided},
		"one bad worker, and time for the others":    {small(4), oneBad, late, fleet.NotDown},
		"nobody at all":                              {small(4), nil, late, fleet.NotDown},
		"over the limit with few calls":              {small(4), workers(4, 1, 1), late, fleet.Undecided},
		"and no more of them for a window":           {small(4), workers(4, 1, 1), time.Minute, fleet.NotDown},
		"those who spoke up are not those drawn":     {large, workers(100, 20, 20), early, fleet.Undecided},
		"half a jury":                                {large, answered(7, workers(12, 100, 60)), early, fleet.Down},
		"less than that":                             {large, answered(7, workers(11, 100, 60)), early, fleet.Undecided},
		"fewer, when all have answered that will":    {large, answered(7, workers(8, 100, 60)), ripe, fleet.Down},
		"a jury of another round":                    {large, answered(6, workers(12, 100, 60)), early, fleet.Undecided},
		"a jury that has seen little":                {large, answered(7, workers(29, 10, 1)), ripe, fleet.TooFewCalls},
		"a jury that has seen little but enough":     {large, answered(7, workers(30, 10, 6)), ripe, fleet.Down},
		"a jury that has seen enough":                {large, answered(7, workers(30, 100, 1)), late, fleet.NotDown},
		"a jury that has seen enough, a little late": {large, answered(7, workers(30, 100, 1)), ripe, fleet.Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			finding, reason := fleet.Decide(config, c.question, c.reports, c.since)
			assert.Equal(t, c.want, finding)
			assert.Equal(t, finding == fleet.Down, reason.Rule != "")
		})
	}
}

// However the answers come in, a census is over with its last milestone.
func TestDecide_EndsByTimeAlone(t *testing.T) {
	t.Parallel()
	last := fleet.Milestones(config)[len(fleet.Milestones(config))-1]
	for _, reports := range [][]fleet.Report{nil, workers(3, 1, 1), workers(3, 100, 100), {hanging("a", 2)}} {
		finding, _ := fleet.Decide(config, fleet.Poll{OneIn: 1}, reports, last)
		assert.Contains(t, []fleet.PollResult{fleet.Down, fleet.NotDown}, finding)
	}
	short := config
	short.Window = 10 * time.Millisecond
	assert.IsIncreasing(t, fleet.Milestones(short))
}

func TestAlone_AreThoseWhoseOwnReportTrips(t *testing.T) {
	t.Parallel()
	reports := []fleet.Report{report("fine", 20, 0), report("bad", 20, 20), report("thin", 3, 3), hanging("hung", 10)}
	assert.Equal(t, []string{"bad", "hung"}, fleet.Outliers(config, reports))
}

// Ten seconds are half full of failures after five: found innocent before, an
// outage would have to be suspected anew.
func TestDecide_WaitsForWhatIsOnItsWayToALimit(t *testing.T) {
	t.Parallel()
	q := fleet.Poll{OneIn: 1, Workers: 3}
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
		finding, _ := fleet.Decide(config, q, c.reports, 1500*time.Millisecond)
		assert.Equal(t, c.rising, finding == fleet.Undecided, "%v", c.reports)
		finding, _ = fleet.Decide(config, q, c.reports, 10*time.Second)
		assert.Equal(t, fleet.NotDown, finding)
	}
}

// A large fleet of which a share is in trouble, as by a zone that has lost its
// way out: those speak up first.
func TestDecide_AJuryFindsWhatTheWholeFleetWould(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bad  int
		want fleet.PollResult
	}{{0, fleet.NotDown}, {100, fleet.NotDown}, {250, fleet.NotDown}, {750, fleet.Down}, {1000, fleet.Down}} {
		wrong := 0
		for round := range int64(200) {
			q := fleet.Poll{Round: round + 1, OneIn: fleet.OneIn(1000), Workers: 1000}
			var reports []fleet.Report
			for w := range 1000 {
				r := report(fmt.Sprintf("worker-%d", w), 50, 0)
				if w < c.bad {
					r.Window.Failures = 50
				}
				if q.Includes(r.Worker) {
					r.Round = q.Round
					reports = append(reports, r)
				}
			}
			if finding, _ := fleet.Decide(config, q, reports, config.FastWindow); finding != c.want {
				wrong++
			}
		}
		assert.LessOrEqual(t, wrong, 4, "of 200, with %d of 1000 in trouble", c.bad)
	}
}
