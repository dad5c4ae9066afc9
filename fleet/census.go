package fleet

import (
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// Finding is what a census has come to.
type Finding int

const (
	// Undecided: more answers are to come.
	Undecided Finding = iota
	// Guilty: the dependency is down.
	Guilty
	// Innocent: it is up for the fleet, whoever is in trouble.
	Innocent
	// Thin: those who were drawn have seen too little. More are to be asked.
	Thin
)

const (
	// ripe is when the first answers of everyone who gives one are in: the push to
	// a thousand workers takes a quarter of a second.
	ripe = 500 * time.Millisecond
	// patient is until when nobody is found innocent: each worker has answered twice
	// or three times by then.
	patient = 1500 * time.Millisecond
	// telling is how many calls tell a p99 on either side of a limit apart, with
	// three over it.
	telling = 300
)

// Milestones are the times since the question at which a census may be decided
// without a further answer.
func Milestones(c breaker.Config) []time.Duration {
	rising := max(c.FastWindow, 2*patient)
	return []time.Duration{ripe, patient, rising, max(c.Window, 2*rising)}
}

// near is c with limits of a tenth. An outage that has just begun is still on its
// way to the limits: a fast window is half full of failures when half of it has
// passed.
func near(c breaker.Config) breaker.Config {
	c.FailureRate /= 10
	c.Quantile = 1 - (1-c.Quantile)/10
	return c
}

// Decide gives the finding of a census, so long after the question. reports are
// the newest of each worker. It is pure and deterministic.
//
// Of a large fleet only the answers count: who speaks up by himself is in trouble,
// and many of those are no majority. Where everyone is asked, all are in the end
// heard, and each report counts.
func Decide(c breaker.Config, q Question, reports []Report, since time.Duration) (Finding, breaker.Reason) {
	answers, calls := q.answers(reports)
	complete := q.OneIn <= 1 && q.Workers > 0 && len(answers) >= q.Workers || q.OneIn > 1 && len(answers) >= jury/2
	if complete || since >= ripe {
		if reason, guilty := Convict(c.Judge, answers); guilty {
			return Guilty, reason
		}
	}
	if q.OneIn > 1 && since >= ripe && calls < telling {
		return Thin, breaker.Reason{}
	}
	_, over := Convict(c.Over, answers)
	_, rising := Convict(near(c).Over, answers)
	milestones := Milestones(c)
	switch {
	case since < milestones[1],
		// Over a limit with too few calls to convict, the answer is still open.
		over && since < milestones[3],
		rising && since < milestones[2]:
		return Undecided, breaker.Reason{}
	}
	return Innocent, breaker.Reason{}
}

// answers gives those of the reports that count, and how many calls they hold.
func (q Question) answers(reports []Report) (answers []Report, calls int) {
	for _, r := range reports {
		if q.OneIn <= 1 || r.Round == q.Round {
			answers = append(answers, r)
			calls += r.Window.Samples + r.Hung
		}
	}
	return answers, calls
}

// Wider is of how many workers one is to be asked so that those drawn have seen
// enough, after a question that was answered by these reports.
func (q Question) Wider(reports []Report) int {
	_, calls := q.answers(reports)
	return max(1, min(q.OneIn/2, q.OneIn*calls/telling))
}

// maxAlone bounds how many workers are told that they are alone; more are not.
const maxAlone = 100

// Alone gives the workers whose own report trips the rule: those in trouble,
// when the dependency is not.
func Alone(c breaker.Config, reports []Report) []string {
	var alone []string
	for _, r := range reports {
		if _, trips := c.Judge(r.Evidence); trips && len(alone) < maxAlone {
			alone = append(alone, r.Worker)
		}
	}
	return alone
}
