package main

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/fleet/member"
)

// latencies are what the way through Temporal takes, drawn evenly.
type latencies struct {
	// signal: from a worker to a workflow's task. push: from an outage workflow over
	// the board to a worker. timer: how late a workflow's timer is.
	signal, push, timer span
}

type span struct{ from, to time.Duration }

func (s span) draw(r *rand.Rand) time.Duration {
	return s.from + time.Duration(r.Float64()*float64(s.to-s.from))
}

// measured are those of the embedded server on two cores, with the timers of a
// server in production.
var measured = latencies{
	signal: span{10 * time.Millisecond, 40 * time.Millisecond},
	push:   span{40 * time.Millisecond, 150 * time.Millisecond},
	timer:  span{0, time.Second},
}

// world is one fleet, and the little of Temporal that its verdict needs: the
// board with its hints, and the outage workflow's sequence up to the verdict.
type world struct {
	clock     *clock
	config    breaker.Config
	random    *rand.Rand
	latencies latencies
	processes []*process
	coming    messages

	table fleet.Table
	hints fleet.HintCounter
	round int64

	// running: an outage workflow is suspecting. poll and asked are of its
	// census, zero before it has asked.
	running  bool
	reports  fleet.Reports
	poll     fleet.Poll
	asked    time.Duration
	sequence int64

	// signals are the statements sent, suspicions the outage workflows started.
	signals, suspicions int
	// confirmed is when the dependency was found down; 0: not.
	confirmed time.Duration
	// told is when the last worker had heard of it.
	told time.Duration
}

// message is something that arrives.
type message struct {
	at    time.Duration
	order int
	do    func()
}

type messages []message

func (m messages) Len() int { return len(m) }
func (m messages) Less(i, j int) bool {
	return m[i].at < m[j].at || m[i].at == m[j].at && m[i].order < m[j].order
}
func (m messages) Swap(i, j int) { m[i], m[j] = m[j], m[i] }
func (m *messages) Push(x any)   { *m = append(*m, x.(message)) }
func (m *messages) Pop() any {
	old := *m
	last := old[len(old)-1]
	*m = old[:len(old)-1]
	return last
}

// in has something happen after a while.
func (w *world) in(d time.Duration, do func()) {
	w.sequence++
	heap.Push(&w.coming, message{w.clock.now + d, int(w.sequence), do})
}

// pass lets one step of time go by.
func (w *world) pass() {
	w.clock.now += step
	now := w.clock.now
	for len(w.coming) > 0 && w.coming[0].at <= now {
		heap.Pop(&w.coming).(message).do()
	}
	every := tickEvery(w.config)
	for _, p := range w.processes {
		if now >= p.next || len(p.hung) > 0 {
			p.call()
		}
		if now >= p.tick {
			p.look(every)
		}
		if now >= p.due {
			for _, s := range p.reporter.Messages(now, false) {
				w.send(p, s)
			}
			p.plan()
		}
	}
}

// send brings a statement to where it goes.
func (w *world) send(p *process, s member.Message) {
	w.signals++
	w.sequence++
	s.Report.Worker, s.Report.Sequence = p.reporter.Worker, w.sequence
	w.in(w.latencies.signal.draw(w.random), func() {
		switch s.Kind {
		case member.HintMessage:
			if w.hints.Add(w.clock.Now()) && !w.running {
				// By an activity of the board.
				w.in(w.latencies.signal.draw(w.random), w.suspect)
			}
		case member.AnswerMessage:
			w.take(s.Report)
		default:
			w.suspect()
			w.take(s.Report)
		}
	})
}

// suspect starts an outage workflow unless one runs.
func (w *world) suspect() {
	if w.running || w.confirmed > 0 {
		return
	}
	w.running, w.poll = true, fleet.Poll{}
	w.reports.Reset()
	w.suspicions++
	w.ask(0)
}

// take brings the outage workflow a report.
func (w *world) take(r fleet.Report) {
	if w.running {
		w.reports.Add(r)
		w.decide()
	}
}

// ask puts the poll to one worker in oneIn; 0: as fits the fleet.
func (w *world) ask(oneIn int) {
	w.round = max(w.round+1, w.clock.Now().UnixMilli())
	q := fleet.Poll{Key: key, Outage: "outage", Round: w.round, OneIn: 1, Workers: len(w.processes), Until: w.clock.Now().Add(2 * w.config.Window)}
	w.in(w.latencies.signal.draw(w.random), func() {
		if q.OneIn = oneIn; oneIn == 0 {
			q.OneIn = fleet.OneIn(q.Workers)
		}
		if oneIn > 0 || q.Workers > len(w.reports.All()) {
			w.table.Polls = []fleet.Poll{q}
			w.push()
		}
		w.poll, w.asked = q, w.clock.now
		w.decide()
		for _, milestone := range fleet.Milestones(w.config) {
			w.in(milestone+w.latencies.timer.draw(w.random), func() {
				if w.poll.Round == q.Round {
					w.decide()
				}
			})
		}
	})
}

func (w *world) decide() {
	if !w.running || w.poll.Round != w.round {
		return
	}
	result, _ := fleet.Decide(w.config, w.poll, w.reports.All(), w.clock.now-w.asked)
	now := w.clock.Now()
	switch result {
	case fleet.TooFewCalls:
		w.ask(w.poll.WiderOneIn(w.reports.All()))
	case fleet.Down:
		w.running, w.confirmed = false, w.clock.now
		w.hints.Confirmed()
		w.publish(fleet.Entry{Key: key, Verdict: breaker.Verdict{
			State: breaker.Open, Since: now, Next: now.Add(w.config.Cooldown), Outage: "outage",
		}})
	case fleet.NotDown:
		w.running = false
		w.hints.Dismissed(now)
		w.publish(fleet.Entry{
			Key: key, Dismissed: true, Outliers: fleet.Outliers(w.config, w.reports.All()), Verdict: breaker.Verdict{Outage: "outage"},
		})
	}
}

func (w *world) publish(e fleet.Entry) {
	w.round = max(w.round+1, w.clock.Now().UnixMilli())
	e.Verdict.Epoch = w.round
	w.table.Entries, w.table.Polls = []fleet.Entry{e}, nil
	w.push()
}

// push brings the table to every worker.
func (w *world) push() {
	t := w.table
	for _, p := range w.processes {
		w.in(w.latencies.push.draw(w.random), func() {
			p.hear(t)
			if w.confirmed > 0 {
				w.told = w.clock.now
			}
		})
	}
}

// enough tells whether all that all workers know convicts.
func (w *world) enough() bool {
	reports := make([]fleet.Report, len(w.processes))
	for i, p := range w.processes {
		reports[i] = fleet.Report{Worker: p.reporter.Worker, Evidence: p.evidence()}
	}
	_, down := fleet.Judge(w.config.Judge, reports)
	return down
}
