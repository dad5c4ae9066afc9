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
	// Thin: those who were drawn have seen too little. Everyone is to be asked.
	Thin
)

const (
	// ripe is when the first answers of everyone who gives one are in: the push to
	// a thousand workers takes a quarter of a second.
	ripe = 500 * time.Millisecond
	// patient is until when nobody is found innocent: a dependency that hangs
	// becomes so by and by, and each worker has answered twice or three times.
	patient = 1500 * time.Millisecond
	// telling is how many calls tell a p99 on either side of a limit apart.
	telling = 1000
)

// Milestones are the times since the question at which a census may be decided
// without a further answer.
func Milestones(c breaker.Config) []time.Duration {
	return []time.Duration{ripe, patient, max(c.Window, 2*patient)}
}

// Decide gives the finding of a census, so long after the question. reports are
// the newest of each worker. It is pure and deterministic.
//
// Of a large fleet only the answers count: who speaks up by himself is in trouble,
// and many of those are no majority. Where everyone is asked, all are in the end
// heard, and each report counts.
func Decide(c breaker.Config, q Question, reports []Report, since time.Duration) (Finding, breaker.Reason) {
	var answers []Report
	calls := 0
	for _, r := range reports {
		if q.OneIn <= 1 || r.Round == q.Round {
			answers = append(answers, r)
			calls += r.Window.Samples + r.Hung
		}
	}
	complete := q.OneIn <= 1 && q.Workers > 0 && len(answers) >= q.Workers || q.OneIn > 1 && len(answers) >= jury/2
	if complete || since >= ripe {
		if reason, guilty := Convict(c.Judge, answers); guilty {
			return Guilty, reason
		}
	}
	if q.OneIn > 1 && since >= ripe && calls < telling {
		return Thin, breaker.Reason{}
	}
	if since >= patient {
		// Over a limit with too few calls to convict, the answer is still open.
		if _, over := Convict(c.Over, answers); !over || since >= max(c.Window, 2*patient) {
			return Innocent, breaker.Reason{}
		}
	}
	return Undecided, breaker.Reason{}
}

// Alone gives the workers whose own report trips the rule: those in trouble,
// when the dependency is not.
func Alone(c breaker.Config, reports []Report) []string {
	var alone []string
	for _, r := range reports {
		if _, trips := c.Judge(r.Evidence); trips {
			alone = append(alone, r.Worker)
		}
	}
	return alone
}
