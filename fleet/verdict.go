package fleet

import "github.com/toolbreaker/toolbreaker/breaker"

// Rule is a trip rule over evidence: [breaker.Config.Judge], or
// [breaker.Config.JudgeRamp] for the calls of a ramp.
type Rule func(breaker.Evidence) (breaker.Reason, bool)

// Judge returns whether the reports together show that the dependency is down. It
// is pure and deterministic.
//
// The rule must trip on the sum of all reports, and still trip without any one
// worker's report. So no single worker can open every breaker for a dependency that
// others reach. Only a worker that has all the traffic decides by itself.
func Judge(rule Rule, reports []Report) (breaker.Reason, bool) {
	var sum breaker.Evidence
	var withTraffic []breaker.Evidence
	for _, r := range reports {
		if r.Calls() > 0 {
			withTraffic = append(withTraffic, r.Evidence)
			sum = sum.Add(r.Evidence)
		}
	}
	reason, down := rule(sum)
	if !down || len(withTraffic) == 1 {
		return reason, down
	}
	for _, one := range withTraffic {
		if _, still := rule(sum.Sub(one)); !still {
			return breaker.Reason{}, false
		}
	}
	return reason, true
}

// maxOutliers bounds the length of the list.
const maxOutliers = 100

// Outliers returns the workers whose own report trips the rule, at most 100. If the
// dependency is not down, the problem is at these workers.
func Outliers(c breaker.Config, reports []Report) []string {
	var outliers []string
	for _, r := range reports {
		if _, trips := c.Judge(r.Evidence); trips && len(outliers) < maxOutliers {
			outliers = append(outliers, r.Worker)
		}
	}
	return outliers
}
