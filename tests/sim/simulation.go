package main

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/fleet/member"
)

// latencies are the ranges of the delays through Temporal. Delays are uniformly
// random.
type latencies struct {
	// signal: from a worker to a workflow task. push: from an outage workflow through
	// the board to a worker. timer: how late a workflow's timer fires.
	signal, push, timer span
}

type span struct{ from, to time.Duration }

func (s span) draw(r *rand.Rand) time.Duration {
	return s.from + time.Duration(r.Float64()*float64(s.to-s.from))
}

// measured are the latencies of the embedded server on two cores, with the timers
// of a production server.
var measured = latencies{
	signal: span{10 * time.Millisecond, 40 * time.Millisecond},
	push:   span{40 * time.Millisecond, 150 * time.Millisecond},
	timer:  span{0, time.Second},
}

// simulation is one fleet, with a simple board and a simple outage workflow up to
// its verdict.
type simulation struct {
	clock     *clock
	config    breaker.Config
	random    *rand.Rand
	latencies latencies
	processes []*process
	coming    events

	table fleet.Table
	hints fleet.HintCounter
	round int64

	// suspecting: an outage workflow polls the fleet. poll is its poll, and polled is
	// when that began. poll is zero before.
	suspecting bool
	reports    fleet.Reports
	poll       fleet.Poll
	polled     time.Duration
	sequence   int64

	// signals counts the messages sent, suspicions the outage workflows started.
	signals, suspicions int
	// confirmed is when the verdict was that the dependency is down; 0: never.
	confirmed time.Duration
	// applied is when the last worker had that verdict.
	applied time.Duration
}

// event is a function to call at a time.
type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// in calls do after d.
func (s *simulation) in(d time.Duration, do func()) {
	s.sequence++
	heap.Push(&s.coming, event{s.clock.now + d, int(s.sequence), do})
}

// pass moves the clock by one step.
func (s *simulation) pass() {
	s.clock.now += step
	now := s.clock.now
	for len(s.coming) > 0 && s.coming[0].at <= now {
		heap.Pop(&s.coming).(event).do()
	}
	interval := tickInterval(s.config)
	for _, p := range s.processes {
		if now >= p.next || len(p.hung) > 0 {
			p.call()
		}
		if now >= p.tick {
			p.tickIfDue(interval)
		}
		if now >= p.due {
			for _, m := range p.reporter.Messages(now, false) {
				s.send(p, m)
			}
			p.schedule()
		}
	}
}

// send delivers a message of a process.
func (s *simulation) send(p *process, m member.Message) {
	s.signals++
	s.sequence++
	m.Report.Worker, m.Report.Sequence = p.reporter.Worker, s.sequence
	s.in(s.latencies.signal.draw(s.random), func() {
		switch m.Kind {
		case member.HintMessage:
			if s.hints.Add(s.clock.Now()) && !s.suspecting {
				// The board's activity starts it.
				s.in(s.latencies.signal.draw(s.random), s.suspect)
			}
		case member.AnswerMessage:
			s.take(m.Report)
		default:
			s.suspect()
			s.take(m.Report)
		}
	})
}

// suspect starts an outage workflow unless one runs.
func (s *simulation) suspect() {
	if s.suspecting || s.confirmed > 0 {
		return
	}
	s.suspecting, s.poll = true, fleet.Poll{}
	s.reports.Reset()
	s.suspicions++
	s.startPoll(0)
}

// take delivers a report to the outage workflow.
func (s *simulation) take(r fleet.Report) {
	if s.suspecting {
		s.reports.Add(r)
		s.decide()
	}
}

// startPoll polls about one in oneIn workers; 0: by the fleet's size.
func (s *simulation) startPoll(oneIn int) {
	s.round = max(s.round+1, s.clock.Now().UnixMilli())
	poll := fleet.Poll{Key: key, Outage: "outage", Round: s.round, OneIn: 1, Workers: len(s.processes), Until: s.clock.Now().Add(2 * s.config.Window)}
	s.in(s.latencies.signal.draw(s.random), func() {
		if poll.OneIn = oneIn; oneIn == 0 {
			poll.OneIn = fleet.OneIn(poll.Workers)
		}
		if oneIn > 0 || poll.Workers > len(s.reports.All()) {
			s.table.Polls = []fleet.Poll{poll}
			s.push()
		}
		s.poll, s.polled = poll, s.clock.now
		s.decide()
		for _, milestone := range fleet.Milestones(s.config) {
			s.in(milestone+s.latencies.timer.draw(s.random), func() {
				if s.poll.Round == poll.Round {
					s.decide()
				}
			})
		}
	})
}

func (s *simulation) decide() {
	if !s.suspecting || s.poll.Round != s.round {
		return
	}
	result, _ := fleet.Decide(s.config, s.poll, s.reports.All(), s.clock.now-s.polled)
	now := s.clock.Now()
	switch result {
	case fleet.TooFewCalls:
		s.startPoll(s.poll.WiderOneIn(s.reports.All()))
	case fleet.Down:
		s.suspecting, s.confirmed = false, s.clock.now
		s.hints.Confirmed()
		s.publish(fleet.Entry{Key: key, Verdict: breaker.Verdict{
			State: breaker.Open, Since: now, Next: now.Add(s.config.Cooldown), Outage: "outage",
		}})
	case fleet.NotDown:
		s.suspecting = false
		s.hints.Dismissed(now)
		s.publish(fleet.Entry{
			Key: key, Dismissed: true, Outliers: fleet.Outliers(s.config, s.reports.All()), Verdict: breaker.Verdict{Outage: "outage"},
		})
	}
}

func (s *simulation) publish(e fleet.Entry) {
	s.round = max(s.round+1, s.clock.Now().UnixMilli())
	e.Verdict.Epoch = s.round
	s.table.Entries, s.table.Polls = []fleet.Entry{e}, nil
	s.push()
}

// push delivers the table to every worker.
func (s *simulation) push() {
	t := s.table
	for _, p := range s.processes {
		s.in(s.latencies.push.draw(s.random), func() {
			p.apply(t)
			if s.confirmed > 0 {
				s.applied = s.clock.now
			}
		})
	}
}

// suffices returns whether the evidence of all workers together trips the rule.
func (s *simulation) suffices() bool {
	reports := make([]fleet.Report, len(s.processes))
	for i, p := range s.processes {
		reports[i] = fleet.Report{Worker: p.reporter.Worker, Evidence: p.evidence()}
	}
	_, down := fleet.Judge(s.config.Judge, reports)
	return down
}
