package fleet

import (
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// Report is one worker's evidence about a key, sent to the outage workflow. It
// holds only counts: no arguments, no results, no error texts.
type Report struct {
	// Worker identifies the process. A worker's newest report replaces its earlier
	// ones.
	Worker string `json:"worker"`
	// Sequence grows with each report of a worker. A duplicate or late report has no
	// effect.
	Sequence int64 `json:"sequence"`
	// TaskQueue is where the tool's activities run.
	TaskQueue string `json:"task_queue"`
	// Build is the worker's build ID, if it has one.
	Build string `json:"build,omitempty"`
	// Round is that of the [Poll] that this answers; 0 for a report sent unasked.
	Round int64 `json:"round,omitempty"`
	// State is the state of the worker's breaker when it gathered the evidence.
	State breaker.State `json:"state"`
	// Epoch is that of the newest verdict the worker had applied; 0 before any.
	Epoch int64 `json:"epoch"`
	// HoldOff is how much longer the dependency wants no calls, as by Retry-After. 0:
	// it has not asked for that.
	HoldOff time.Duration `json:"hold_off_ns,omitempty"`
	breaker.Evidence
}

// Calls returns how many calls the report's window holds, including hanging calls.
func (r Report) Calls() int { return r.Window.Samples + r.Hung }

// Reports keeps the newest report of each worker, in order of first arrival. The
// zero value is empty. It is not safe for concurrent use.
type Reports struct {
	list []Report
}

// Add keeps a report if it is newer than the worker's last one, and returns whether
// it is.
func (r *Reports) Add(report Report) bool {
	for i := range r.list {
		if r.list[i].Worker == report.Worker {
			if report.Sequence <= r.list[i].Sequence {
				return false
			}
			r.list[i] = report
			return true
		}
	}
	r.list = append(r.list, report)
	return true
}

// All returns the newest report of each worker.
func (r *Reports) All() []Report { return r.list }

// Sum returns the evidence of all workers together.
func (r *Reports) Sum() breaker.Evidence {
	var sum breaker.Evidence
	for _, report := range r.list {
		sum = sum.Add(report.Evidence)
	}
	return sum
}

// Reset removes every report.
func (r *Reports) Reset() { r.list = nil }
