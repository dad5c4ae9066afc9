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
	// firstAnswers is the time by which every worker's first answer has arrived. The
	// push to a thousand workers takes a quarter of a second.
	firstAnswers = 500 * time.Millisecond
	// minPollTime is the earliest time for NotDown. Each worker has answered two or
	// three times by then.
	minPollTime = 1500 * time.Millisecond
	// minCallsForP99 is how many calls a p99 needs: 1 % of them are three calls.
	minCallsForP99 = 300
)

// Milestones returns the times since the start of a poll at which [Decide] may
// decide without a further answer.
func Milestones(c breaker.Config) []time.Duration {
	rising := max(c.FastWindow, 2*minPollTime)
	return []time.Duration{firstAnswers, minPollTime, rising, max(c.Window, 2*rising)}
}

// nearLimits returns c with a tenth of its limits. An outage that has just begun
// has not filled a window yet, so evidence over a tenth of a limit may still rise.
func nearLimits(c breaker.Config) breaker.Config {
	c.FailureRate /= 10
	c.Quantile = 1 - (1-c.Quantile)/10
	return c
}

// Decide judges the answers to a poll. reports holds the newest report of each
// worker, and since is the time since the start of the poll. Decide is pure and
// deterministic.
//
// In a large fleet only answers to the poll count. Workers report unasked because
// their own calls fail or are slow, so they do not represent the others. In a small
// fleet every worker is polled and every report counts.
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
		// Over a limit, but with too few calls for a verdict. More calls may come.
		over && since < milestones[3],
		rising && since < milestones[2]:
		return Undecided, breaker.Reason{}
	}
	return NotDown, breaker.Reason{}
}

// answers returns the reports that count, and how many calls they hold.
func (p Poll) answers(reports []Report) (answers []Report, calls int) {
	for _, r := range reports {
		if p.OneIn <= 1 || r.Round == p.Round {
			answers = append(answers, r)
			calls += r.Calls()
		}
	}
	return answers, calls
}

// WiderOneIn returns the [Poll.OneIn] of the next poll when the answers to p held
// too few calls. The larger sample should hold enough.
func (p Poll) WiderOneIn(reports []Report) int {
	_, calls := p.answers(reports)
	return max(1, min(p.OneIn/2, p.OneIn*calls/minCallsForP99))
}
