package member

import (
	"math"
	"time"
)

const (
	// maxAnswerSpread is the longest delay of a first answer, so that the answers of
	// a fleet do not arrive at once.
	maxAnswerSpread = 100 * time.Millisecond
	// answerInterval is the delay before the second answer while the poll is open. It
	// doubles for each further answer, up to maxAnswerInterval. One answer is not
	// enough, because a hanging call becomes evidence only after its latency
	// threshold.
	answerInterval    = 500 * time.Millisecond
	maxAnswerInterval = 2 * time.Second
)

// answerDelay returns the delay before a worker's n-th answer to a poll, since the
// answer before it. n counts from 0. u is random in [0, 1).
func answerDelay(n int, u float64) time.Duration {
	if n == 0 {
		return time.Duration(u * float64(maxAnswerSpread))
	}
	return min(answerInterval<<min(n-1, 8), maxAnswerInterval)
}

const (
	// maxReportDelay is the longest delay of a report.
	maxReportDelay = 500 * time.Millisecond
	// delayedFleet is the largest fleet in which few workers report before all know of
	// the first report.
	delayedFleet = 1000
)

// reportDelay returns the delay before a worker reports a trip or a suspicion. All
// workers see an outage at the same time, and one report is enough. u is random in
// [0, 1).
//
// Long delays are exponentially more likely. Of ten workers the first reports after
// two thirds of the longest delay, of a thousand after a tenth. In both cases only
// a few others report soon after.
func reportDelay(u float64) time.Duration {
	return time.Duration(math.Log(1+u*(delayedFleet-1)) / math.Log(delayedFleet) * float64(maxReportDelay))
}

// firstHintBackoff is the first pause after a hint that had no effect.
const firstHintBackoff = 5 * time.Second

// hintBackoff returns the pause after the n-th consecutive hint or suspicion of a
// worker about a key that had no effect. n counts from 0. The pause doubles up to
// an hour, so that lasting noise costs each worker one signal an hour.
func hintBackoff(n int) time.Duration { return min(firstHintBackoff<<min(n, 20), time.Hour) }
