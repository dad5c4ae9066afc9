package fleet

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// Poll asks the workers of a fleet for their evidence about a key. It stands on
// the board until a verdict answers it.
type Poll struct {
	Key breaker.Key `json:"key"`
	// Outage is the ID of the workflow that takes the answers.
	Outage string `json:"outage"`
	// Round numbers the polls of a key and grows. A verdict with a greater epoch
	// ends the poll.
	Round int64 `json:"round"`
	// OneIn: one in so many workers answers, chosen at random. 0 and 1: all.
	OneIn int `json:"one_in,omitempty"`
	// Workers is the size of the fleet; 0 when it could not be counted.
	Workers int `json:"workers,omitempty"`
	// Until is when the outage workflow stops waiting for answers.
	Until time.Time `json:"until"`
}

const (
	// sampleSize is about how many workers of a large fleet are polled, so that the
	// cost of a suspicion does not grow with the fleet. The sample is random: workers
	// in trouble must not be heard first, or a tenth of a fleet would decide.
	sampleSize = 24
	// pollAllUpTo is the size of a fleet in which every worker answers, those without
	// traffic as well, so that the poll ends with the last answer.
	pollAllUpTo = 64
)

// OneIn is the [Poll.OneIn] that fits a fleet of so many workers.
func OneIn(workers int) int {
	if workers <= pollAllUpTo {
		return 1
	}
	return workers / sampleSize
}

// IncludesAll tells whether every worker answers, also one without traffic.
func (p Poll) IncludesAll() bool { return p.OneIn <= 1 && p.Workers <= pollAllUpTo }

// Includes tells whether a worker is in the poll's sample.
func (p Poll) Includes(worker string) bool { return Sampled(worker, p.Round, p.OneIn) }

// Sampled tells whether a worker is in a random sample of about one in oneIn. The
// round seeds the sample, so that all processes agree on it.
func Sampled(worker string, round int64, oneIn int) bool {
	if oneIn <= 1 {
		return true
	}
	sum := sha256.Sum256([]byte(worker + "/" + strconv.FormatInt(round, 10)))
	return binary.BigEndian.Uint64(sum[:])%uint64(oneIn) == 0
}
