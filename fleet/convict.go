package fleet

import "github.com/toolbreaker/toolbreaker/breaker"

// Rule is a trip rule over evidence: [breaker.Config.Judge], or
// [breaker.Config.JudgeRamp] for the calls of a ramp.
type Rule func(breaker.Evidence) (breaker.Reason, bool)

// Convict tells whether the reports together find the dependency down. It is
// pure and deterministic: the outage workflow decides by it alone.
//
// The rule must hold on the sum, and still hold with any one worker's report
// left out: no single worker can convict a dependency that others reach. Only
// a worker that is alone in having traffic convicts by itself.
func Convict(rule Rule, reports []Report) (breaker.Reason, bool) {
	var sum breaker.Evidence
	var withTraffic []breaker.Evidence
	for _, r := range reports {
		if r.Window.Samples+r.Hung > 0 {
			withTraffic = append(withTraffic, r.Evidence)
			sum = sum.Add(r.Evidence)
		}
	}
	reason, guilty := rule(sum)
	if !guilty || len(withTraffic) == 1 {
		return reason, guilty
	}
	for _, one := range withTraffic {
		if _, still := rule(sum.Sub(one)); !still {
			return breaker.Reason{}, false
		}
	}
	return reason, true
}
