package fleet

import (
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// PollResult is what the answers to a [Poll] show so far.
type PollResult int

const (
	// Undecided: more answers are needed.
	Undecided PollResult = iota
	// Down: the dependency is down.
	Down
	// NotDown: the fleet reaches the dependency, even if some workers do not.
	NotDown
	// TooFewCalls: the sampled workers have seen too few calls. Poll more workers.
	TooFewCalls
)

const (
	// firstAnswers is when every worker's first answer is in. The push to a thousand
	// workers takes a quarter of a second.
	firstAnswers = 500 * time.Millisecond
	// minPollTime is the earliest time for NotDown. Each worker has answered two or
	// three times by then.
	minPollTime = 1500 * time.Millisecond
	// minCallsForP99 is how many calls show on which side of a limit a p99 is, with
	// three calls over it.
	minCallsForP99 = 300
)

// Milestones are the times since the start of a poll at which [Decide] may decide
// without a further answer.
func Milestones(c breaker.Config) []time.Duration {
	rising := max(c.FastWindow, 2*minPollTime)
	return []time.Duration{firstAnswers, minPollTime, rising, max(c.Window, 2*rising)}
}

// nearLimits is c with a tenth of its limits. An outage that has just begun has
// not filled a window yet: evidence over a tenth of a limit may still be rising.
func nearLimits(c breaker.Config) breaker.Config {
	c.FailureRate /= 10
	c.Quantile = 1 - (1-c.Quantile)/10
	return c
}

// Decide judges the answers to a poll, some time after its start. reports are the
// newest of each worker. It is pure and deterministic.
//
// In a large fleet only answers to the poll count. Workers that report unasked
// are those in trouble, so they say nothing about the others. In a small fleet
// every worker is polled and every report counts.
func Decide(c breaker.Config, p Poll, reports []Report, since time.Duration) (PollResult, breaker.Reason) {
	answers, calls := p.answers(reports)
	complete := p.OneIn <= 1 && p.Workers > 0 && len(answers) >= p.Workers || p.OneIn > 1 && len(answers) >= sampleSize/2
	if complete || since >= firstAnswers {
		if reason, down := Judge(c.Judge, answers); down {
			return Down, reason
		}
	}
	if p.OneIn > 1 && since >= firstAnswers && calls < minCallsForP99 {
		return TooFewCalls, breaker.Reason{}
	}
	_, over := Judge(c.Over, answers)
	_, rising := Judge(nearLimits(c).Over, answers)
	milestones := Milestones(c)
	switch {
	case since < milestones[1],
		// Over a limit with too few calls for a verdict: more calls may come.
		over && since < milestones[3],
		rising && since < milestones[2]:
		return Undecided, breaker.Reason{}
	}
	return NotDown, breaker.Reason{}
}

// answers gives the reports that count, and how many calls they hold.
func (p Poll) answers(reports []Report) (answers []Report, calls int) {
	for _, r := range reports {
		if p.OneIn <= 1 || r.Round == p.Round {
			answers = append(answers, r)
			calls += r.Calls()
		}
	}
	return answers, calls
}

// WiderOneIn is the [Poll.OneIn] of a poll that samples enough calls, after one
// whose answers held too few.
func (p Poll) WiderOneIn(reports []Report) int {
	_, calls := p.answers(reports)
	return max(1, min(p.OneIn/2, p.OneIn*calls/minCallsForP99))
}
