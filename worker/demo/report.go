package demo

import (
	"encoding/json"
	"os"
	"slices"
	"time"

	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

// Report is what the demo measured. Seconds are simulated: at speed 10, one second of
// real time is ten simulated seconds.
type Report struct {
	Speed       float64 `json:"speed"`
	Fault       string  `json:"fault"`
	Healthy     Phase   `json:"healthy"`
	Unprotected Phase   `json:"unprotected"`
	Protected   Phase   `json:"protected"`
	Recovery    Phase   `json:"recovery"`
	Breaker     Breaker `json:"breaker"`
}

// Phase holds the figures of one phase.
type Phase struct {
	Runs int `json:"runs"`
	// RunSecondsMedian and RunSecondsMax are over the runs started in this phase.
	RunSecondsMedian float64 `json:"run_seconds_median"`
	RunSecondsMax    float64 `json:"run_seconds_max"`
	// RunRatioMedian is RunSecondsMedian divided by that of the healthy phase.
	RunRatioMedian float64 `json:"run_ratio_median"`
	// RunRatioMaxOnceOpen is the longest run started while the breaker was open or
	// half-open, divided by the healthy median. 0: there was none.
	RunRatioMaxOnceOpen float64 `json:"run_ratio_max_once_open"`
	// ToolCalls counts the models' tool calls, without retries.
	ToolCalls int `json:"tool_calls"`
	// CustomerCallsReached and ProbeCalls are counted by the carrier.
	CustomerCallsReached int `json:"customer_calls_reached"`
	// CustomerCallsWhileOpen counts the customer calls that reached the carrier while
	// the breaker was open or half-open. Calls within inFlightGrace are left out.
	CustomerCallsWhileOpen int `json:"customer_calls_while_open"`
	ProbeCalls             int `json:"probe_calls"`
	// SlotSecondsWaiting is how long failed carrier calls held worker slots.
	SlotSecondsWaiting float64 `json:"slot_seconds_waiting"`
	// PartialAnswers, Escalations and EmptyAnswers count runs by outcome. An empty
	// answer holds no information for the customer.
	PartialAnswers int `json:"partial_answers"`
	Escalations    int `json:"escalations"`
	EmptyAnswers   int `json:"empty_answers"`
}

// Breaker holds the figures of the carrier's breaker.
type Breaker struct {
	LatencyThresholdSeconds float64      `json:"latency_threshold_seconds"`
	FaultToOpenSeconds      float64      `json:"fault_to_open_seconds"`
	RepairToClosedSeconds   float64      `json:"repair_to_closed_seconds"`
	Transitions             []Transition `json:"transitions"`
}

// Transition is one transition. AtSeconds counts from the fault.
type Transition struct {
	AtSeconds float64 `json:"at_seconds"`
	From      string  `json:"from"`
	To        string  `json:"to"`
	Reason    string  `json:"reason"`
}

// inFlightGrace is how long after the opening a call that started before it may still
// arrive at the carrier, in real time.
const inFlightGrace = 100 * time.Millisecond

// write writes the report to file as JSON.
func (r Report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// phase sums up the runs started and the calls received from begin to end.
func (s *scenario) phase(begin, end time.Time, calls []carrier.Call) Phase {
	var p Phase
	var seconds []float64
	for _, r := range s.runs {
		if r.started.Before(begin) || !r.started.Before(end) {
			continue
		}
		p.Runs++
		p.ToolCalls += r.outcome.ToolCalls
		seconds = append(seconds, r.seconds)
		if s.refusing(r.started, 0) {
			p.RunRatioMaxOnceOpen = max(p.RunRatioMaxOnceOpen, r.seconds)
		}
		if r.outcome.Partial {
			p.PartialAnswers++
		}
		if r.outcome.Escalation != "" {
			p.Escalations++
		}
		if r.outcome.Empty {
			p.EmptyAnswers++
		}
	}
	p.RunSecondsMedian, p.RunSecondsMax = median(seconds), slices.Max(append(seconds, 0))
	for _, c := range calls {
		if c.Region != region || c.At.Before(begin) || !c.At.Before(end) {
			continue
		}
		switch c.Kind {
		case carrier.Probe:
			p.ProbeCalls++
		case carrier.Customer:
			p.CustomerCallsReached++
			if s.refusing(c.At, inFlightGrace) {
				p.CustomerCallsWhileOpen++
			}
		}
	}
	p.SlotSecondsWaiting = s.seconds(s.failedCalls.total(begin, end))
	return p
}

// compareTo sets the ratios to the healthy phase.
func (p *Phase) compareTo(healthy Phase) {
	if healthy.RunSecondsMedian > 0 {
		p.RunRatioMedian = p.RunSecondsMedian / healthy.RunSecondsMedian
		p.RunRatioMaxOnceOpen /= healthy.RunSecondsMedian
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
