package fleet

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// Question is what a suspicion asks the fleet, by the board: what have you seen
// of this key?
type Question struct {
	Key breaker.Key `json:"key"`
	// Outage is the workflow that asks.
	Outage string `json:"outage"`
	// Round tells the questions about a key apart, and grows; a verdict's epoch past
	// it answers the question.
	Round int64 `json:"round"`
	// OneIn is of how many workers one is asked, drawn by lot. 0 and 1: everyone.
	OneIn int `json:"one_in,omitempty"`
	// Workers is how many workers the fleet has; 0 when nobody could count them.
	Workers int `json:"workers,omitempty"`
	// Until is when nobody waits for answers any more.
	Until time.Time `json:"until"`
}

const (
	// jury is about how many workers of a large fleet are asked, so that what a
	// suspicion costs does not grow with the fleet. Drawn by lot they speak for all:
	// those that are in trouble must not be heard first, or a tenth of a fleet would
	// convict.
	jury = 24
	// askEveryone is the size of a fleet in which everyone answers, those without
	// traffic as well, so that the census is over with the last answer.
	askEveryone = 64
)

// OneIn is of how many workers of a fleet one is drawn.
func OneIn(workers int) int {
	if workers <= askEveryone {
		return 1
	}
	return workers / jury
}

// Everyone tells whether all workers are asked, however little they have seen.
func (q Question) Everyone() bool { return q.OneIn <= 1 && q.Workers <= askEveryone }

// Asks tells whether the lot falls on a worker.
func (q Question) Asks(worker string) bool { return Drawn(worker, q.Round, q.OneIn) }

// Drawn tells whether a worker is one of about one in oneIn, by a lot of its own
// for each round.
func Drawn(worker string, round int64, oneIn int) bool {
	if oneIn <= 1 {
		return true
	}
	sum := sha256.Sum256([]byte(worker + "/" + strconv.FormatInt(round, 10)))
	return binary.BigEndian.Uint64(sum[:])%uint64(oneIn) == 0
}

const (
	// answerWithin spreads the answers to a question.
	answerWithin = 100 * time.Millisecond
	// answerAgain is after how long a worker answers again while the question
	// stands; each further time after twice as long, up to maxAnswerAgain. What
	// hangs becomes evidence only as it ages.
	answerAgain    = 500 * time.Millisecond
	maxAnswerAgain = 2 * time.Second
)

// AnswerAfter is how long a worker waits with its n-th answer, counted from 0
// and from the answer before. u in [0, 1) is drawn by the worker.
func AnswerAfter(n int, u float64) time.Duration {
	if n == 0 {
		return time.Duration(u * float64(answerWithin))
	}
	return min(answerAgain<<min(n-1, 8), maxAnswerAgain)
}

const (
	// speakWithin is how long a worker that suspects something waits at most.
	speakWithin = 500 * time.Millisecond
	// speakers is the size of fleet up to which few speak before the first one is
	// heard.
	speakers = 1000
)

// SpeakAfter is how long a worker waits with what it suspects, in case another
// one is heard meanwhile: all workers see an outage at the same moment. u in
// [0, 1) is drawn by the worker. The wait is distributed exponentially towards
// its end: of ten workers the first speaks after two thirds of it, of a thousand
// after a tenth, and in either case few have spoken a little later.
func SpeakAfter(u float64) time.Duration {
	return time.Duration(math.Log(1+u*(speakers-1)) / math.Log(speakers) * float64(speakWithin))
}
