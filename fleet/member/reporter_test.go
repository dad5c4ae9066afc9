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

// testReporter is a reporter of one key with random numbers of 0.5.
type testReporter struct {
	member.Reporter
	breaker breaker.Snapshot
}

func newReporter() *testReporter {
	r := &testReporter{breaker: breaker.Snapshot{Key: carrierKey}}
	r.Reporter = member.Reporter{
		Worker: "worker-1",
		Random: func() float64 { return 0.5 },
		Breaker: func(key breaker.Key) (breaker.Snapshot, bool) {
			return r.breaker, key == carrierKey
		},
	}
	return r
}

func (r *testReporter) apply(now time.Duration, t fleet.Table) {
	r.TableChanged(now, start, t, func(key breaker.Key) bool { return key == carrierKey })
}

// messages returns the messages due up to a time, and when each was due.
func (r *testReporter) messages(t *testing.T, until time.Duration) (all []member.Message, at []time.Duration) {
	t.Helper()
	for range 1000 {
		due, ok := r.NextDue()
		if !ok || due > until {
			return all, at
		}
		for _, message := range r.Messages(due, false) {
			all, at = append(all, message), append(at, due)
		}
	}
	require.Fail(t, "messages do not end")
	return nil, nil
}

func pollOf(round int64) fleet.Table {
	return fleet.Table{Polls: []fleet.Poll{{Key: carrierKey, Outage: "outage/carrier-api/eu-west", Round: round, OneIn: 1, Workers: 3, Until: start.Add(time.Minute)}}}
}

var evidence = breaker.Evidence{Window: breaker.Counts{Samples: 12, Failures: 12}}

// trip opens the breaker by its own decision.
func (r *testReporter) trip(now time.Duration) {
	r.breaker.State = breaker.Open
	r.Tripped(now, carrierKey, fleet.Report{State: breaker.Closed, Evidence: evidence}, false)
}

func TestReporter_SendsNothingWithoutACause(t *testing.T) {
	t.Parallel()
	r := newReporter()
	_, due := r.NextDue()
	assert.False(t, due)
	assert.Empty(t, r.Messages(time.Hour, true))
	r.apply(time.Hour, fleet.Table{Polls: []fleet.Poll{{Key: breaker.Key{Dependency: "other", Region: "eu-west"}, Round: 1}}})
	assert.Empty(t, r.Messages(2*time.Hour, false), "the worker does not guard this key")
}

func TestReporter_ReportsATripOnceAfterADelay(t *testing.T) {
	t.Parallel()
	r := newReporter()
	r.trip(time.Minute)
	sent, at := r.messages(t, time.Hour)
	require.Len(t, sent, 1)
	assert.Equal(t, member.TripMessage, sent[0].Kind)
	assert.Equal(t, evidence, sent[0].Report.Evidence)
	assert.Equal(t, time.Minute+member.ReportDelay(0.5), at[0])
}

func TestReporter_DoesNotReportATripThatTheFleetKnows(t *testing.T) {
	t.Parallel()
	for name, learn := range map[string]func(*testReporter){
		"an outage is open": func(r *testReporter) { r.breaker.Outage = "outage/carrier-api/eu-west" },
		"it has closed":     func(r *testReporter) { r.breaker.State = breaker.Closed; r.Closed(carrierKey) },
		"it is quarantined": func(r *testReporter) { r.ForgetTrip(carrierKey) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReporter()
			r.trip(time.Minute)
			learn(r)
			sent, _ := r.messages(t, time.Hour)
			assert.Empty(t, sent)
		})
	}
	r := newReporter()
	r.breaker.State = breaker.Open
	r.Tripped(0, carrierKey, fleet.Report{Evidence: evidence}, true)
	sent, _ := r.messages(t, time.Hour)
	assert.Empty(t, sent, "it was quarantined before the trip")
}

func TestReporter_SendsATripAgainAfterAnError(t *testing.T) {
	t.Parallel()
	r := newReporter()
	r.trip(0)
	sent, at := r.messages(t, time.Hour)
	require.Len(t, sent, 1)
	r.SendFailed(at[0], sent[0])
	again, later := r.messages(t, time.Hour)
	require.Len(t, again, 1)
	assert.Equal(t, sent[0], again[0])
	assert.Equal(t, at[0]+time.Second, later[0])
}

func TestReporter_SendsUnsentTripsAsItStops(t *testing.T) {
	t.Parallel()
	r := newReporter()
	r.trip(0)
	require.Len(t, r.Messages(0, true), 1)
	assert.Empty(t, r.Messages(time.Hour, true))
}

// While a poll is open, the answer replaces the report of the trip.
func TestReporter_AnswersAPollInsteadOfReportingATrip(t *testing.T) {
	t.Parallel()
	r := newReporter()
	r.apply(0, pollOf(7))
	r.trip(0)
	sent, at := r.messages(t, 100*time.Millisecond)
	require.Len(t, sent, 1)
	assert.Equal(t, member.AnswerMessage, sent[0].Kind)
	assert.Equal(t, "outage/carrier-api/eu-west", sent[0].Poll.Outage)
	assert.Equal(t, int64(7), sent[0].Report.Round)
	assert.Equal(t, evidence, sent[0].Report.Evidence, "the evidence of the trip, not the fresh window")
	assert.Equal(t, 50*time.Millisecond, at[0])

	// The poll's outage workflow has ended without a verdict.
	r.apply(time.Second, fleet.Table{})
	sent, _ = r.messages(t, time.Hour)
	require.Len(t, sent, 1)
	assert.Equal(t, member.TripMessage, sent[0].Kind)
}

// A terminated outage leaves its poll on the board.
func TestReporter_ReportsATripWhenThePollHasExpired(t *testing.T) {
	t.Parallel()
	r := newReporter()
	r.apply(0, pollOf(7))
	r.trip(0)
	sent, at := r.messages(t, time.Hour)
	last := sent[len(sent)-1]
	assert.Equal(t, member.TripMessage, last.Kind)
	assert.Equal(t, time.Minute, at[len(at)-1])
	assert.Equal(t, member.AnswerMessage, sent[len(sent)-2].Kind)

	far := pollOf(8)
	far.Polls[0].Until = start.Add(1000 * time.Hour)
	r = newReporter()
	r.apply(0, far)
	r.trip(0)
	_, at = r.messages(t, time.Hour)
	assert.Equal(t, 5*time.Minute, at[len(at)-1], "bounded, because another machine's clock may be ahead")
}

// The reporter may be called late, as when a signal waits for its deadline. An
// expired poll must not leave a message that stays due.
func TestReporter_HasNothingDueAfterAPollHasExpired(t *testing.T) {
	t.Parallel()
	r := newReporter()
	r.apply(0, pollOf(7))
	assert.Empty(t, r.Messages(10*time.Minute, false))
	_, due := r.NextDue()
	assert.False(t, due)
	r.apply(11*time.Minute, pollOf(7))
	_, due = r.NextDue()
	assert.False(t, due, "the poll is still on the board")
}

func TestReporter_AnswersAgainWhileThePollIsOpen(t *testing.T) {
	t.Parallel()
	r := newReporter()
	r.breaker.Evidence = breaker.Evidence{Window: breaker.Counts{Samples: 40}}
	r.apply(0, pollOf(7))
	r.apply(10*time.Millisecond, pollOf(7))
	sent, at := r.messages(t, 4*time.Second)
	assert.Equal(t, []time.Duration{50 * time.Millisecond, 550 * time.Millisecond, 1550 * time.Millisecond, 3550 * time.Millisecond}, at)
	assert.Equal(t, breaker.Closed, sent[0].Report.State)

	r.apply(4*time.Second, pollOf(8))
	sent, _ = r.messages(t, 4200*time.Millisecond)
	require.Len(t, sent, 1, "each poll is answered")
	assert.Equal(t, int64(8), sent[0].Report.Round)

	r.PollEnded(fleet.Poll{Key: carrierKey, Round: 8})
	sent, _ = r.messages(t, time.Hour)
	assert.Empty(t, sent)
	r.apply(time.Hour, pollOf(8))
	sent, _ = r.messages(t, 2*time.Hour)
	assert.Empty(t, sent, "the board may still have an ended poll")
}

func TestReporter_WithoutTrafficAnswersOnceInASmallFleetAndNeverInALargeOne(t *testing.T) {
	t.Parallel()
	r := newReporter()
	r.apply(0, pollOf(7))
	sent, _ := r.messages(t, 30*time.Second)
	assert.Len(t, sent, 1)

	large := pollOf(8)
	large.Polls[0].Workers, large.Polls[0].OneIn = 1000, 1
	r.apply(time.Minute, large)
	sent, _ = r.messages(t, 2*time.Minute)
	assert.Empty(t, sent)
}

func TestReporter_AnswersOnlyIfSampled(t *testing.T) {
	t.Parallel()
	answers := 0
	for round := range int64(200) {
		r := newReporter()
		r.breaker.Evidence = breaker.Evidence{Window: breaker.Counts{Samples: 40}}
		table := pollOf(round + 1)
		table.Polls[0].Workers, table.Polls[0].OneIn = 300, 10
		r.apply(0, table)
		sent, _ := r.messages(t, 100*time.Millisecond)
		answers += len(sent)
	}
	assert.InDelta(t, 20, answers, 12)
}

// suspect reports a suspicion at each tick of the breaker.
func (r *testReporter) suspect(t *testing.T, level breaker.Suspicion, from, to time.Duration) (all []member.Message) {
	t.Helper()
	for now := from; now < to; now += 250 * time.Millisecond {
		r.Suspected(now, carrierKey, level)
		sent, _ := r.messages(t, now+249*time.Millisecond)
		all = append(all, sent...)
	}
	return all
}

// Hints and suspicions without effect are sent less and less often.
func TestReporter_ReportsASuspicionLessAndLessOften(t *testing.T) {
	t.Parallel()
	for level, kind := range map[breaker.Suspicion]member.MessageKind{breaker.WeakSuspicion: member.HintMessage, breaker.StrongSuspicion: member.SuspicionMessage} {
		r := newReporter()
		r.breaker.Evidence = breaker.Evidence{Window: breaker.Counts{Samples: 5, Failures: 5}}
		sent := r.suspect(t, level, 0, 24*time.Hour)
		assert.InDelta(t, 10+23, len(sent), 2, "after five seconds, ten, and so on, then every hour")
		for _, message := range sent {
			assert.Equal(t, kind, message.Kind)
		}
	}
	r := newReporter()
	require.Len(t, r.suspect(t, breaker.StrongSuspicion, 0, 4*time.Second), 1)
	r.apply(4*time.Second, fleet.Table{Entries: []fleet.Entry{{Key: carrierKey, Verdict: breaker.Verdict{State: breaker.Open, Epoch: 5}}}})
	assert.Len(t, r.suspect(t, breaker.StrongSuspicion, 4*time.Second, 8*time.Second), 1, "the verdict has reset the pause")
}

func TestReporter_ReportsAStrongSuspicionAfterAWeakOne(t *testing.T) {
	t.Parallel()
	r := newReporter()
	sent := r.suspect(t, breaker.WeakSuspicion, 0, time.Second)
	sent = append(sent, r.suspect(t, breaker.StrongSuspicion, time.Second, 2*time.Second)...)
	require.Len(t, sent, 2)
	assert.Equal(t, member.HintMessage, sent[0].Kind)
	assert.Equal(t, member.SuspicionMessage, sent[1].Kind)
}

func TestReporter_DropsASuspicionThatIsReplaced(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(*testReporter){
		"a poll is open":          func(r *testReporter) { r.apply(0, pollOf(7)); _ = r.Messages(time.Second, false) },
		"the breaker has tripped": func(r *testReporter) { r.breaker.State = breaker.Open },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReporter()
			r.Suspected(time.Second, carrierKey, breaker.StrongSuspicion)
			replace(r)
			for _, message := range r.Messages(time.Second+500*time.Millisecond, false) {
				assert.Equal(t, member.AnswerMessage, message.Kind)
			}
		})
	}
	r := newReporter()
	r.Suspected(0, carrierKey, breaker.StrongSuspicion)
	assert.Empty(t, r.Messages(time.Minute, false), "the suspicion has ended")
}

func TestReporter_ReportsOnARampIfSampled(t *testing.T) {
	t.Parallel()
	r := newReporter()
	assert.True(t, r.ReportsRamp(r.breaker), "every worker reports by default")
	reporting := 0
	for i := range 300 {
		r.apply(0, fleet.Table{Entries: []fleet.Entry{{Key: carrierKey, OneIn: 10, Verdict: breaker.Verdict{State: breaker.Recovering}}}})
		r.breaker.Since = start.Add(time.Duration(i) * time.Second)
		if r.ReportsRamp(r.breaker) {
			reporting++
		}
	}
	assert.InDelta(t, 30, reporting, 20)
	r.Closed(carrierKey)
	assert.True(t, r.ReportsRamp(r.breaker))
}
