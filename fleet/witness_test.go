package fleet_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
)

var witnessed = breaker.Key{Dependency: "carrier-api", Region: "eu-west"}

// stand is a witness of one key, whose waits are half their longest.
type stand struct {
	fleet.Witness
	breaker breaker.Snapshot
}

func newStand() *stand {
	s := &stand{breaker: breaker.Snapshot{Key: witnessed}}
	s.Witness = fleet.Witness{
		Worker: "worker-1",
		Random: func() float64 { return 0.5 },
		Breaker: func(key breaker.Key) (breaker.Snapshot, bool) {
			return s.breaker, key == witnessed
		},
	}
	return s
}

func (s *stand) hear(now time.Duration, t fleet.Table) {
	s.Heard(now, start, t, func(key breaker.Key) bool { return key == witnessed })
}

// said are the kinds of what is said up to a time, looked at when it is due.
func (s *stand) said(t *testing.T, until time.Duration) (all []fleet.Statement, at []time.Duration) {
	t.Helper()
	for range 1000 {
		due, ok := s.Due()
		if !ok || due > until {
			return all, at
		}
		for _, statement := range s.Statements(due, false) {
			all, at = append(all, statement), append(at, due)
		}
	}
	require.Fail(t, "it never ends")
	return nil, nil
}

func question(round int64) fleet.Table {
	return fleet.Table{Questions: []fleet.Question{{Key: witnessed, Outage: "outage/carrier-api/eu-west", Round: round, OneIn: 1, Workers: 3, Until: start.Add(time.Minute)}}}
}

var evidence = breaker.Evidence{Window: breaker.Counts{Samples: 12, Failures: 12}}

// trip has the breaker open by itself.
func (s *stand) trip(now time.Duration) {
	s.breaker.State = breaker.Open
	s.Tripped(now, witnessed, fleet.Report{State: breaker.Closed, Evidence: evidence}, false)
}

func TestWitness_WithNothingToSayIsSilent(t *testing.T) {
	t.Parallel()
	s := newStand()
	_, due := s.Due()
	assert.False(t, due)
	assert.Empty(t, s.Statements(time.Hour, true))
	s.hear(time.Hour, fleet.Table{Questions: []fleet.Question{{Key: breaker.Key{Dependency: "other", Region: "eu-west"}, Round: 1}}})
	assert.Empty(t, s.Statements(2*time.Hour, false), "it is not its key")
}

func TestWitness_TellsOfATripOnceAfterAMoment(t *testing.T) {
	t.Parallel()
	s := newStand()
	s.trip(time.Minute)
	said, at := s.said(t, time.Hour)
	require.Len(t, said, 1)
	assert.Equal(t, fleet.SayTripped, said[0].Kind)
	assert.Equal(t, evidence, said[0].Report.Evidence)
	assert.Equal(t, time.Minute+fleet.SpeakAfter(0.5), at[0])
}

func TestWitness_KeepsATripToItselfThatTheFleetKnows(t *testing.T) {
	t.Parallel()
	for name, know := range map[string]func(*stand){
		"an outage has it now": func(s *stand) { s.breaker.Outage = "outage/carrier-api/eu-west" },
		"it is closed again":   func(s *stand) { s.breaker.State = breaker.Closed; s.Closed(witnessed) },
		"it is quarantined":    func(s *stand) { s.Known(witnessed) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand()
			s.trip(time.Minute)
			know(s)
			said, _ := s.said(t, time.Hour)
			assert.Empty(t, said)
		})
	}
	s := newStand()
	s.breaker.State = breaker.Open
	s.Tripped(0, witnessed, fleet.Report{Evidence: evidence}, true)
	said, _ := s.said(t, time.Hour)
	assert.Empty(t, said, "it was quarantined before")
}

func TestWitness_TellsATripAgainThatDidNotArrive(t *testing.T) {
	t.Parallel()
	s := newStand()
	s.trip(0)
	said, at := s.said(t, time.Hour)
	require.Len(t, said, 1)
	s.Failed(at[0], said[0])
	again, later := s.said(t, time.Hour)
	require.Len(t, again, 1)
	assert.Equal(t, said[0], again[0])
	assert.Equal(t, at[0]+time.Second, later[0])
}

func TestWitness_TellsItsTripsAsItStops(t *testing.T) {
	t.Parallel()
	s := newStand()
	s.trip(0)
	require.Len(t, s.Statements(0, true), 1)
	assert.Empty(t, s.Statements(time.Hour, true))
}

// While the fleet is asked, its answer says it all.
func TestWitness_AnswersInsteadOfTelling(t *testing.T) {
	t.Parallel()
	s := newStand()
	s.hear(0, question(7))
	s.trip(0)
	said, at := s.said(t, 100*time.Millisecond)
	require.Len(t, said, 1)
	assert.Equal(t, fleet.SayAnswer, said[0].Kind)
	assert.Equal(t, "outage/carrier-api/eu-west", said[0].Question.Outage)
	assert.Equal(t, int64(7), said[0].Report.Round)
	assert.Equal(t, evidence, said[0].Report.Evidence, "what it tripped on, not the empty window since")
	assert.Equal(t, 50*time.Millisecond, at[0])

	// The outage that asked is gone without a verdict.
	s.hear(time.Second, fleet.Table{})
	said, _ = s.said(t, time.Hour)
	require.Len(t, said, 1)
	assert.Equal(t, fleet.SayTripped, said[0].Kind)
}

// Terminated, an outage takes no question back from the board.
func TestWitness_SpeaksAgainWhenNobodyWaitsForAnAnswer(t *testing.T) {
	t.Parallel()
	s := newStand()
	s.hear(0, question(7))
	s.trip(0)
	said, at := s.said(t, time.Hour)
	last := said[len(said)-1]
	assert.Equal(t, fleet.SayTripped, last.Kind)
	assert.Equal(t, time.Minute, at[len(at)-1])
	assert.Equal(t, fleet.SayAnswer, said[len(said)-2].Kind)

	far := question(8)
	far.Questions[0].Until = start.Add(1000 * time.Hour)
	s = newStand()
	s.hear(0, far)
	s.trip(0)
	_, at = s.said(t, time.Hour)
	assert.Equal(t, 5*time.Minute, at[len(at)-1], "by another machine's clock")
}

// It wakes up late, as when Temporal is out of reach and a signal waits for its
// deadline: there must be nothing left that is for ever due.
func TestWitness_HasNothingDueOnceAQuestionHasExpired(t *testing.T) {
	t.Parallel()
	s := newStand()
	s.hear(0, question(7))
	assert.Empty(t, s.Statements(10*time.Minute, false))
	_, due := s.Due()
	assert.False(t, due)
	s.hear(11*time.Minute, question(7))
	_, due = s.Due()
	assert.False(t, due, "the board says it still")
}

func TestWitness_AnswersWhatItSeesForAsLongAsItIsAsked(t *testing.T) {
	t.Parallel()
	s := newStand()
	s.breaker.Evidence = breaker.Evidence{Window: breaker.Counts{Samples: 40}}
	s.hear(0, question(7))
	s.hear(10*time.Millisecond, question(7))
	said, at := s.said(t, 4*time.Second)
	assert.Equal(t, []time.Duration{50 * time.Millisecond, 550 * time.Millisecond, 1550 * time.Millisecond, 3550 * time.Millisecond}, at)
	assert.Equal(t, breaker.Closed, said[0].Report.State)

	s.hear(4*time.Second, question(8))
	said, _ = s.said(t, 4200*time.Millisecond)
	require.Len(t, said, 1, "each question anew")
	assert.Equal(t, int64(8), said[0].Report.Round)

	s.Gone(fleet.Question{Key: witnessed, Round: 8})
	said, _ = s.said(t, time.Hour)
	assert.Empty(t, said)
	s.hear(time.Hour, question(8))
	said, _ = s.said(t, 2*time.Hour)
	assert.Empty(t, said, "the board may not know yet that nobody waits")
}

func TestWitness_WithoutTrafficAnswersASmallFleetOnceAndALargeOneNever(t *testing.T) {
	t.Parallel()
	s := newStand()
	s.hear(0, question(7))
	said, _ := s.said(t, 30*time.Second)
	assert.Len(t, said, 1)

	large := question(8)
	large.Questions[0].Workers, large.Questions[0].OneIn = 1000, 1
	s.hear(time.Minute, large)
	said, _ = s.said(t, 2*time.Minute)
	assert.Empty(t, said)
}

func TestWitness_AnswersOnlyIfTheLotFallsOnIt(t *testing.T) {
	t.Parallel()
	answers := 0
	for round := range int64(200) {
		s := newStand()
		s.breaker.Evidence = breaker.Evidence{Window: breaker.Counts{Samples: 40}}
		q := question(round + 1)
		q.Questions[0].Workers, q.Questions[0].OneIn = 300, 10
		s.hear(0, q)
		said, _ := s.said(t, 100*time.Millisecond)
		answers += len(said)
	}
	assert.InDelta(t, 20, answers, 12)
}

// suspect tells a suspicion with each of a breaker's ticks.
func (s *stand) suspect(t *testing.T, level breaker.Suspicion, from, to time.Duration) (all []fleet.Statement) {
	t.Helper()
	for now := from; now < to; now += 250 * time.Millisecond {
		s.Suspected(now, witnessed, level)
		said, _ := s.said(t, now+249*time.Millisecond)
		all = append(all, said...)
	}
	return all
}

// What comes to nothing is said ever less often.
func TestWitness_SaysWhatItSuspectsEverLessOften(t *testing.T) {
	t.Parallel()
	for level, kind := range map[breaker.Suspicion]fleet.Kind{breaker.Whisper: fleet.SayWhisper, breaker.Suspicious: fleet.SaySuspicious} {
		s := newStand()
		s.breaker.Evidence = breaker.Evidence{Window: breaker.Counts{Samples: 5, Failures: 5}}
		said := s.suspect(t, level, 0, 24*time.Hour)
		assert.InDelta(t, 10+23, len(said), 2, "five seconds, ten, …, then an hour")
		for _, statement := range said {
			assert.Equal(t, kind, statement.Kind)
		}
	}
	s := newStand()
	require.Len(t, s.suspect(t, breaker.Suspicious, 0, 4*time.Second), 1)
	s.hear(4*time.Second, fleet.Table{Entries: []fleet.Entry{{Key: witnessed, Verdict: breaker.Verdict{State: breaker.Open, Epoch: 5}}}})
	assert.Len(t, s.suspect(t, breaker.Suspicious, 4*time.Second, 8*time.Second), 1, "something came of it")
}

func TestWitness_SpeaksUpWhenItBecomesSure(t *testing.T) {
	t.Parallel()
	s := newStand()
	said := s.suspect(t, breaker.Whisper, 0, time.Second)
	said = append(said, s.suspect(t, breaker.Suspicious, time.Second, 2*time.Second)...)
	require.Len(t, said, 2)
	assert.Equal(t, fleet.SayWhisper, said[0].Kind)
	assert.Equal(t, fleet.SaySuspicious, said[1].Kind)
}

func TestWitness_SaysNothingOfASuspicionThatIsSomebodys(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]func(*stand){
		"the fleet is being asked": func(s *stand) { s.hear(0, question(7)); _ = s.Statements(time.Second, false) },
		"the breaker has tripped":  func(s *stand) { s.breaker.State = breaker.Open },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand()
			s.Suspected(time.Second, witnessed, breaker.Suspicious)
			known(s)
			for _, statement := range s.Statements(time.Second+500*time.Millisecond, false) {
				assert.Equal(t, fleet.SayAnswer, statement.Kind)
			}
		})
	}
	s := newStand()
	s.Suspected(0, witnessed, breaker.Suspicious)
	assert.Empty(t, s.Statements(time.Minute, false), "it has not lasted")
}

func TestWitness_ReportsOnARampIfTheLotFallsOnIt(t *testing.T) {
	t.Parallel()
	s := newStand()
	assert.True(t, s.OnRamp(s.breaker), "nobody said otherwise")
	reporting := 0
	for i := range 300 {
		s.hear(0, fleet.Table{Entries: []fleet.Entry{{Key: witnessed, OneIn: 10, Verdict: breaker.Verdict{State: breaker.Recovering}}}})
		s.breaker.Since = start.Add(time.Duration(i) * time.Second)
		if s.OnRamp(s.breaker) {
			reporting++
		}
	}
	assert.InDelta(t, 30, reporting, 20)
	s.Closed(witnessed)
	assert.True(t, s.OnRamp(s.breaker))
}
