package member_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/fleet/member"
)

// start is the wall-clock time at which the tests begin.
var start = time.Date(2026, 3, 1, 14, 0, 0, 0, time.UTC)

var carrierKey = breaker.Key{Dependency: "carrier-api", Region: "eu-west"}

// testReporter is a witness of one key, whose waits are half their longest.
type testReporter struct {
	member.Reporter
	breaker breaker.Snapshot
}

func newReporter() *testReporter {
	s := &testReporter{breaker: breaker.Snapshot{Key: carrierKey}}
	s.Reporter = member.Reporter{
		Worker: "worker-1",
		Random: func() float64 { return 0.5 },
		Breaker: func(key breaker.Key) (breaker.Snapshot, bool) {
			return s.breaker, key == carrierKey
		},
	}
	return s
}

func (s *testReporter) hear(now time.Duration, t fleet.Table) {
	s.TableChanged(now, start, t, func(key breaker.Key) bool { return key == carrierKey })
}

// said are the kinds of what is said up to a time, looked at when it is due.
func (s *testReporter) said(t *testing.T, until time.Duration) (all []member.Message, at []time.Duration) {
	t.Helper()
	for range 1000 {
		due, ok := s.NextDue()
		if !ok || due > until {
			return all, at
		}
		for _, statement := range s.Messages(due, false) {
			all, at = append(all, statement), append(at, due)
		}
	}
	require.Fail(t, "it never ends")
	return nil, nil
}

func pollOf(round int64) fleet.Table {
	return fleet.Table{Polls: []fleet.Poll{{Key: carrierKey, Outage: "outage/carrier-api/eu-west", Round: round, OneIn: 1, Workers: 3, Until: start.Add(time.Minute)}}}
}

var evidence = breaker.Evidence{Window: breaker.Counts{Samples: 12, Failures: 12}}

// trip has the breaker open by itself.
func (s *testReporter) trip(now time.Duration) {
	s.breaker.State = breaker.Open
	s.Tripped(now, carrierKey, fleet.Report{State: breaker.Closed, Evidence: evidence}, false)
}

func TestReporter_WithNothingToSayIsSilent(t *testing.T) {
	t.Parallel()
	s := newReporter()
	_, due := s.NextDue()
	assert.False(t, due)
	assert.Empty(t, s.Messages(time.Hour, true))
	s.hear(time.Hour, fleet.Table{Polls: []fleet.Poll{{Key: breaker.Key{Dependency: "other", Region: "eu-west"}, Round: 1}}})
	assert.Empty(t, s.Messages(2*time.Hour, false), "it is not its key")
}

func TestReporter_TellsOfATripOnceAfterAMoment(t *testing.T) {
	t.Parallel()
	s := newReporter()
	s.trip(time.Minute)
	said, at := s.said(t, time.Hour)
	require.Len(t, said, 1)
	assert.Equal(t, member.TripMessage, said[0].Kind)
	assert.Equal(t, evidence, said[0].Report.Evidence)
	assert.Equal(t, time.Minute+member.ReportDelay(0.5), at[0])
}

func TestReporter_KeepsATripToItselfThatTheFleetKnows(t *testing.T) {
	t.Parallel()
	for name, know := range map[string]func(*testReporter){
		"an outage has it now": func(s *testReporter) { s.breaker.Outage = "outage/carrier-api/eu-west" },
		"it is closed again":   func(s *testReporter) { s.breaker.State = breaker.Closed; s.Closed(carrierKey) },
		"it is quarantined":    func(s *testReporter) { s.ForgetTrip(carrierKey) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newReporter()
			s.trip(time.Minute)
			know(s)
			said, _ := s.said(t, time.Hour)
			assert.Empty(t, said)
		})
	}
	s := newReporter()
	s.breaker.State = breaker.Open
	s.Tripped(0, carrierKey, fleet.Report{Evidence: evidence}, true)
	said, _ := s.said(t, time.Hour)
	assert.Empty(t, said, "it was quarantined before")
}

func TestReporter_TellsATripAgainThatDidNotArrive(t *testing.T) {
	t.Parallel()
	s := newReporter()
	s.trip(0)
	said, at := s.said(t, time.Hour)
	require.Len(t, said, 1)
	s.SendFailed(at[0], said[0])
	again, later := s.said(t, time.Hour)
	require.Len(t, again, 1)
	assert.Equal(t, said[0], again[0])
	assert.Equal(t, at[0]+time.Second, later[0])
}

func TestReporter_TellsItsTripsAsItStops(t *testing.T) {
	t.Parallel()
	s := newReporter()
	s.trip(0)
	require.Len(t, s.Messages(0, true), 1)
	assert.Empty(t, s.Messages(time.Hour, true))
}

// While the fleet is asked, its answer says it all.
func TestReporter_AnswersInsteadOfTelling(t *testing.T) {
	t.Parallel()
	s := newReporter()
	s.hear(0, pollOf(7))
	s.trip(0)
	said, at := s.said(t, 100*time.Millisecond)
	require.Len(t, said, 1)
	assert.Equal(t, member.AnswerMessage, said[0].Kind)
	assert.Equal(t, "outage/carrier-api/eu-west", said[0].Poll.Outage)
	assert.Equal(t, int64(7), said[0].Report.Round)
	assert.Equal(t, evidence, said[0].Report.Evidence, "what it tripped on, not the empty window since")
	assert.Equal(t, 50*time.Millisecond, at[0])

	// The outage that asked is gone without a verdict.
	s.hear(time.Second, fleet.Table{})
	said, _ = s.said(t, time.Hour)
	require.Len(t, said, 1)
	assert.Equal(t, member.TripMessage, said[0].Kind)
}

// Terminated, an outage takes no question back from the board.
func TestReporter_SpeaksAgainWhenNobodyWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	s := newReporter()
	s.hear(0, pollOf(7))
	s.trip(0)
	said, at := s.said(t, time.Hour)
	last := said[len(said)-1]
	assert.Equal(t, member.TripMessage, last.Kind)
	assert.Equal(t, time.Minute, at[len(at)-1])
	assert.Equal(t, member.AnswerMessage, said[len(said)-2].Kind)

	far := pollOf(8)
	far.Polls[0].Until = start.Add(1000 * time.Hour)
	s = newReporter()
	s.hear(0, far)
	s.trip(0)
	_, at = s.said(t, time.Hour)
	assert.Equal(t, 5*time.Minute, at[len(at)-1], "by another machine's clock")
}

// It wakes up late, as when Temporal is out of reach and a signal waits for its
// deadline: there must be nothing left that is for ever due.
func TestReporter_HasNothingDueOnceAQuestionHasExpired(t *testing.T) {
	t.Parallel()
	s := newReporter()
	s.hear(0, pollOf(7))
	assert.Empty(t, s.Messages(10*time.Minute, false))
	_, due := s.NextDue()
	assert.False(t, due)
	s.hear(11*time.Minute, pollOf(7))
	_, due = s.NextDue()
	assert.False(t, due, "the board says it still")
}

func TestReporter_AnswersWhatItSeesForAsLongAsItIsAsked(t *testing.T) {
	t.Parallel()
	s := newReporter()
	s.breaker.Evidence = breaker.Evidence{Window: breaker.Counts{Samples: 40}}
	s.hear(0, pollOf(7))
	s.hear(10*time.Millisecond, pollOf(7))
	said, at := s.said(t, 4*time.Second)
	assert.Equal(t, []time.Duration{50 * time.Millisecond, 550 * time.Millisecond, 1550 * time.Millisecond, 3550 * time.Millisecond}, at)
	assert.Equal(t, breaker.Closed, said[0].Report.State)

	s.hear(4*time.Second, pollOf(8))
	said, _ = s.said(t, 4200*time.Millisecond)
	require.Len(t, said, 1, "each question anew")
	assert.Equal(t, int64(8), said[0].Report.Round)

	s.PollEnded(fleet.Poll{Key: carrierKey, Round: 8})
	said, _ = s.said(t, time.Hour)
	assert.Empty(t, said)
	s.hear(time.Hour, pollOf(8))
	said, _ = s.said(t, 2*time.Hour)
	assert.Empty(t, said, "the board may not know yet that nobody waits")
}

func TestReporter_WithoutTrafficAnswersASmallFleetOnceAndALargeOneNever(t *testing.T) {
	t.Parallel()
	s := newReporter()
	s.hear(0, pollOf(7))
	said, _ := s.said(t, 30*time.Second)
	assert.Len(t, said, 1)

	large := pollOf(8)
	large.Polls[0].Workers, large.Polls[0].OneIn = 1000, 1
	s.hear(time.Minute, large)
	said, _ = s.said(t, 2*time.Minute)
	assert.Empty(t, said)
}

func TestReporter_AnswersOnlyIfTheLotFallsOnIt(t *testing.T) {
	t.Parallel()
	answers := 0
	for round := range int64(200) {
		s := newReporter()
		s.breaker.Evidence = breaker.Evidence{Window: breaker.Counts{Samples: 40}}
		q := pollOf(round + 1)
		q.Polls[0].Workers, q.Polls[0].OneIn = 300, 10
		s.hear(0, q)
		said, _ := s.said(t, 100*time.Millisecond)
		answers += len(said)
	}
	assert.InDelta(t, 20, answers, 12)
}

// suspect tells a suspicion with each of a breaker's ticks.
func (s *testReporter) suspect(t *testing.T, level breaker.Suspicion, from, to time.Duration) (all []member.Message) {
	t.Helper()
	for now := from; now < to; now += 250 * time.Millisecond {
		s.Suspected(now, carrierKey, level)
		said, _ := s.said(t, now+249*time.Millisecond)
		all = append(all, said...)
	}
	return all
}

// What comes to nothing is said ever less often.
func TestReporter_SaysWhatItSuspectsEverLessOften(t *testing.T) {
	t.Parallel()
	for level, kind := range map[breaker.Suspicion]member.MessageKind{breaker.WeakSuspicion: member.HintMessage, breaker.StrongSuspicion: member.SuspicionMessage} {
		s := newReporter()
		s.breaker.Evidence = breaker.Evidence{Window: breaker.Counts{Samples: 5, Failures: 5}}
		said := s.suspect(t, level, 0, 24*time.Hour)
		assert.InDelta(t, 10+23, len(said), 2, "five seconds, ten, …, then an hour")
		for _, statement := range said {
			assert.Equal(t, kind, statement.Kind)
		}
	}
	s := newReporter()
	require.Len(t, s.suspect(t, breaker.StrongSuspicion, 0, 4*time.Second), 1)
	s.hear(4*time.Second, fleet.Table{Entries: []fleet.Entry{{Key: carrierKey, Verdict: breaker.Verdict{State: breaker.Open, Epoch: 5}}}})
	assert.Len(t, s.suspect(t, breaker.StrongSuspicion, 4*time.Second, 8*time.Second), 1, "something came of it")
}

func TestReporter_SpeaksUpWhenItBecomesSure(t *testing.T) {
	t.Parallel()
	s := newReporter()
	said := s.suspect(t, breaker.WeakSuspicion, 0, time.Second)
	said = append(said, s.suspect(t, breaker.StrongSuspicion, time.Second, 2*time.Second)...)
	require.Len(t, said, 2)
	assert.Equal(t, member.HintMessage, said[0].Kind)
	assert.Equal(t, member.SuspicionMessage, said[1].Kind)
}

func TestReporter_SaysNothingOfASuspicionThatIsSomebodys(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]func(*testReporter){
		"the fleet is being asked": func(s *testReporter) { s.hear(0, pollOf(7)); _ = s.Messages(time.Second, false) },
		"the breaker has tripped":  func(s *testReporter) { s.breaker.State = breaker.Open },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newReporter()
			s.Suspected(time.Second, carrierKey, breaker.StrongSuspicion)
			known(s)
			for _, statement := range s.Messages(time.Second+500*time.Millisecond, false) {
				assert.Equal(t, member.AnswerMessage, statement.Kind)
			}
		})
	}
	s := newReporter()
	s.Suspected(0, carrierKey, breaker.StrongSuspicion)
	assert.Empty(t, s.Messages(time.Minute, false), "it has not lasted")
}

func TestReporter_ReportsOnARampIfTheLotFallsOnIt(t *testing.T) {
	t.Parallel()
	s := newReporter()
	assert.True(t, s.ReportsRamp(s.breaker), "nobody said otherwise")
	reporting := 0
	for i := range 300 {
		s.hear(0, fleet.Table{Entries: []fleet.Entry{{Key: carrierKey, OneIn: 10, Verdict: breaker.Verdict{State: breaker.Recovering}}}})
		s.breaker.Since = start.Add(time.Duration(i) * time.Second)
		if s.ReportsRamp(s.breaker) {
			reporting++
		}
	}
	assert.InDelta(t, 30, reporting, 20)
	s.Closed(carrierKey)
	assert.True(t, s.ReportsRamp(s.breaker))
}
