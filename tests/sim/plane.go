package main

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
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
// board with its whispers, and the outage workflow's sequence up to the verdict.
type world struct {
	clock     *clock
	config    breaker.Config
	random    *rand.Rand
	latencies latencies
	processes []*process
	coming    messages

	table    fleet.Table
	whispers fleet.Whispers
	round    int64

	// running: an outage workflow is suspecting. question and asked are of its
	// census, zero before it has asked.
	running  bool
	reports  fleet.Reports
	question fleet.Question
	asked    time.Duration
	sequence int64

	// signals are the statements sent, suspicions the outage workflows started.
	signals, suspicions int
	// convicted is when the dependency was found guilty; 0: not.
	convicted time.Duration
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
			for _, s := range p.witness.Statements(now, false) {
				w.send(p, s)
			}
			p.plan()
		}
	}
}

// send brings a statement to where it goes.
func (w *world) send(p *process, s fleet.Statement) {
	w.signals++
	w.sequence++
	s.Report.Worker, s.Report.Sequence = p.witness.Worker, w.sequence
	w.in(w.latencies.signal.draw(w.random), func() {
		switch s.Kind {
		case fleet.SayWhisper:
			if w.whispers.Hear(w.clock.Now()) && !w.running {
				// By an activity of the board.
				w.in(w.latencies.signal.draw(w.random), w.suspect)
			}
		case fleet.SayAnswer:
			w.take(s.Report)
		default:
			w.suspect()
			w.take(s.Report)
		}
	})
}

// suspect starts an outage workflow unless one runs.
func (w *world) suspect() {
	if w.running || w.convicted > 0 {
		return
	}
	w.running, w.question = true, fleet.Question{}
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

// ask puts the question to one worker in oneIn; 0: as fits the fleet.
func (w *world) ask(oneIn int) {
	w.round = max(w.round+1, w.clock.Now().UnixMilli())
	q := fleet.Question{Key: key, Outage: "outage", Round: w.round, OneIn: 1, Workers: len(w.processes), Until: w.clock.Now().Add(2 * w.config.Window)}
	w.in(w.latencies.signal.draw(w.random), func() {
		if q.OneIn = oneIn; oneIn == 0 {
			q.OneIn = fleet.OneIn(q.Workers)
		}
		if oneIn > 0 || q.Workers > len(w.reports.All()) {
			w.table.Questions = []fleet.Question{q}
			w.push()
		}
		w.question, w.asked = q, w.clock.now
		w.decide()
		for _, milestone := range fleet.Milestones(w.config) {
			w.in(milestone+w.latencies.timer.draw(w.random), func() {
				if w.question.Round == q.Round {
					w.decide()
				}
			})
		}
	})
}

func (w *world) decide() {
	if !w.running || w.question.Round != w.round {
		return
	}
	finding, _ := fleet.Decide(w.config, w.question, w.reports.All(), w.clock.now-w.asked)
	now := w.clock.Now()
	switch finding {
	case fleet.Thin:
		w.ask(w.question.Wider(w.reports.All()))
	case fleet.Guilty:
		w.running, w.convicted = false, w.clock.now
		w.whispers.Convicted()
		w.publish(fleet.Entry{Key: key, Verdict: breaker.Verdict{
			State: breaker.Open, Since: now, Next: now.Add(w.config.Cooldown), Outage: "outage",
		}})
	case fleet.Innocent:
		w.running = false
		w.whispers.Dismissed(now)
		w.publish(fleet.Entry{
			Key: key, Dismissed: true, Alone: fleet.Alone(w.config, w.reports.All()), Verdict: breaker.Verdict{Outage: "outage"},
		})
	}
}

func (w *world) publish(e fleet.Entry) {
	w.round = max(w.round+1, w.clock.Now().UnixMilli())
	e.Verdict.Epoch = w.round
	w.table.Entries, w.table.Questions = []fleet.Entry{e}, nil
	w.push()
}

// push brings the table to every worker.
func (w *world) push() {
	t := w.table
	for _, p := range w.processes {
		w.in(w.latencies.push.draw(w.random), func() {
			p.hear(t)
			if w.convicted > 0 {
				w.told = w.clock.now
			}
		})
	}
}

// enough tells whether all that all workers know convicts.
func (w *world) enough() bool {
	reports := make([]fleet.Report, len(w.processes))
	for i, p := range w.processes {
		reports[i] = fleet.Report{Worker: p.witness.Worker, Evidence: p.evidence()}
	}
	_, guilty := fleet.Convict(w.config.Judge, reports)
	return guilty
}
