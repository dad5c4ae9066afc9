package member

import (
	"math"
	"time"
)

const (
	// maxAnswerSpread is the longest delay of a first answer, so that the answers of
	// a fleet do not arrive at once.
	maxAnswerSpread = 100 * time.Millisecond
	// answerInterval is after how long a worker answers again while the poll is open.
	// It doubles each time, up to maxAnswerInterval. A hanging call becomes evidence
	// only with its age, so one answer is not enough.
	answerInterval    = 500 * time.Millisecond
	maxAnswerInterval = 2 * time.Second
)

// AnswerDelay is the delay before a worker's n-th answer to a poll, counted from 0
// and from the answer before. u is random in [0, 1).
func AnswerDelay(n int, u float64) time.Duration {
	if n == 0 {
		return time.Duration(u * float64(maxAnswerSpread))
	}
	return min(answerInterval<<min(n-1, 8), maxAnswerInterval)
}

const (
	// maxReportDelay is the longest delay of a report.
	maxReportDelay = 500 * time.Millisecond
	// delayedFleet is the size of a fleet up to which few workers report before the
	// first report is known to all.
	delayedFleet = 1000
)

// ReportDelay is the delay before a worker reports a trip or a suspicion. All
// workers see an outage at the same moment, and one report is enough. u is random
// in [0, 1).
//
// The delays are distributed exponentially towards the longest. Of ten workers the
// first reports after two thirds of it, of a thousand after a tenth, and in either
// case only a few more report soon after.
func ReportDelay(u float64) time.Duration {
	return time.Duration(math.Log(1+u*(delayedFleet-1)) / math.Log(delayedFleet) * float64(maxReportDelay))
}

// hintBackoff is the first pause after a hint that had no effect.
const hintBackoff = 5 * time.Second

// HintBackoff is the pause after a worker's n-th hint or suspicion about a key in a
// row that had no effect, counted from 0. It doubles up to an hour, so that lasting
// noise costs one signal a worker and hour.
func HintBackoff(n int) time.Duration { return min(hintBackoff<<min(n, 20), time.Hour) }
