package breaker

import (
	"fmt"
	"time"
)

// Rule names the rule that tripped a breaker.
type Rule string

const (
	// RuleFailureRate: more calls failed than Config.FailureRate allows.
	RuleFailureRate Rule = "failure_rate"
	// RuleLatency: the latency quantile is over Config.Latency.
	RuleLatency Rule = "latency"
	// RuleProbe: a probe failed.
	RuleProbe Rule = "probe"
	// RuleForced: an operator forced the state.
	RuleForced Rule = "forced"
)

// Reason is why a breaker tripped, with the counts and limits at that moment. It does
// not change afterwards, so every event and refusal of an outage has the same one.
type Reason struct {
	Rule Rule `json:"rule"`
	// Counts are those of the horizon that tripped.
	Counts
	// Hung is how many calls had been in flight for longer than Latency.
	Hung int `json:"hung"`
	// Horizon is the time that the counts cover.
	Horizon time.Duration `json:"horizon_ns"`
	// FailureRate, Latency and Quantile are the limits that applied.
	FailureRate float64       `json:"failure_rate_limit,omitempty"`
	Latency     time.Duration `json:"latency_limit_ns,omitempty"`
	Quantile    float64       `json:"quantile,omitempty"`
	// By is who forced the state, Note is why.
	By   string `json:"by,omitempty"`
	Note string `json:"note,omitempty"`
}

// String returns the reason as text, such as "12 of 20 calls failed in 10s (over 50%)".
func (r Reason) String() string {
	switch r.Rule {
	case RuleFailureRate:
		return fmt.Sprintf("%d of %d calls failed in %v (over %.4g%%)",
			r.Failures, r.Samples, r.Horizon, 100*r.FailureRate)
	case RuleLatency:
		s := fmt.Sprintf("%d of %d calls slower than %v in %v (p%.4g over the threshold)",
			r.Slow+r.Hung, r.Samples+r.Hung, r.Latency, r.Horizon, 100*r.Quantile)
		if r.Hung > 0 {
			s += fmt.Sprintf(", %d of them still hanging", r.Hung)
		}
		return s
	case RuleProbe:
		return "a probe failed"
	case RuleForced:
		return fmt.Sprintf("forced by %s: %s", r.By, r.Note)
	default:
		return string(r.Rule)
	}
}
