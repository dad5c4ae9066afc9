package demo

import (
	"encoding/json"
	"os"
	"slices"
	"time"

	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

// Report is what the demo measured. Seconds are those of the story: at speed 10
// a second of the clock counts as ten.
type Report struct {
	Speed       float64 `json:"speed"`
	Fault       string  `json:"fault"`
	Healthy     Act     `json:"healthy"`
	Unprotected Act     `json:"unprotected"`
	Protected   Act     `json:"protected"`
	Recovery    Act     `json:"recovery"`
	Breaker     Breaker `json:"breaker"`
}

// Act is one act's figures.
type Act struct {
	Runs int `json:"runs"`
	// RunSecondsMedian and RunSecondsMax are over the runs begun in this act.
	RunSecondsMedian float64 `json:"run_seconds_median"`
	RunSecondsMax    float64 `json:"run_seconds_max"`
	// RunRatioMedian is RunSecondsMedian to the healthy act's.
	RunRatioMedian float64 `json:"run_ratio_median"`
	// RunRatioMaxOnceOpen is the longest run begun while the breaker was open or
	// half-open, to the healthy median; 0 where there was none.
	RunRatioMaxOnceOpen float64 `json:"run_ratio_max_once_open"`
	// ToolCalls is how many tools the models called, retries not counted.
	ToolCalls int `json:"tool_calls"`
	// CustomerCallsReached and ProbeCalls are the carrier's own counts.
	CustomerCallsReached int `json:"customer_calls_reached"`
	// CustomerCallsWhileOpen is how many reached it while the breaker was open or
	// half-open, past the wireGrace of calls that were already on their way.
	CustomerCallsWhileOpen int `json:"customer_calls_while_open"`
	ProbeCalls             int `json:"probe_calls"`
	// SlotSecondsWaiting is how long worker slots were held by carrier calls that
	// failed in the end.
	SlotSecondsWaiting float64 `json:"slot_seconds_waiting"`
	// PartialAnswers, Escalations and EmptyAnswers count how runs ended; the last
	// are those that yielded nothing.
	PartialAnswers int `json:"partial_answers"`
	Escalations    int `json:"escalations"`
	EmptyAnswers   int `json:"empty_answers"`
}

// Breaker is what the carrier's breaker did in the acts with one.
type Breaker struct {
	LatencyThresholdSeconds float64      `json:"latency_threshold_seconds"`
	FaultToOpenSeconds      float64      `json:"fault_to_open_seconds"`
	RepairToClosedSeconds   float64      `json:"repair_to_closed_seconds"`
	Transitions             []Transition `json:"transitions"`
}

// Transition is one edge, in seconds since the fault.
type Transition struct {
	AtSeconds float64 `json:"at_seconds"`
	From      string  `json:"from"`
	To        string  `json:"to"`
	Reason    string  `json:"reason"`
}

// wireGrace is how long after an opening a call may still arrive that was let
// pass before it, in real time.
const wireGrace = 100 * time.Millisecond

// write puts the report into file.
func (r Report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// act sums up the runs begun, and the calls that arrived, from begin to end.
func (s *story) act(begin, end time.Time, calls []carrier.Call) Act {
	var a Act
	var seconds []float64
	for _, r := range s.runs {
		if r.began.Before(begin) || !r.began.Before(end) {
			continue
		}
		a.Runs++
		a.ToolCalls += r.outcome.ToolCalls
		seconds = append(seconds, r.seconds)
		if s.blocked(r.began, 0) {
			a.RunRatioMaxOnceOpen = max(a.RunRatioMaxOnceOpen, r.seconds)
		}
		if r.outcome.Partial {
			a.PartialAnswers++
		}
		if r.outcome.Escalation != "" {
			a.Escalations++
		}
		if r.outcome.Empty {
			a.EmptyAnswers++
		}
	}
	a.RunSecondsMedian, a.RunSecondsMax = median(seconds), slices.Max(append(seconds, 0))
	for _, c := range calls {
		if c.Region != region || c.At.Before(begin) || !c.At.Before(end) {
			continue
		}
		switch c.Kind {
		case carrier.Probe:
			a.ProbeCalls++
		case carrier.Customer:
			a.CustomerCallsReached++
			if s.blocked(c.At, wireGrace) {
				a.CustomerCallsWhileOpen++
			}
		}
	}
	a.SlotSecondsWaiting = s.seconds(s.meter.wasted(begin, end))
	return a
}

// against puts an act's durations beside the healthy one's.
func (a *Act) against(healthy Act) {
	if healthy.RunSecondsMedian > 0 {
		a.RunRatioMedian = a.RunSecondsMedian / healthy.RunSecondsMedian
		a.RunRatioMaxOnceOpen /= healthy.RunSecondsMedian
	}
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
