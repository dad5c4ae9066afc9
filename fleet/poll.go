package fleet

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// Poll asks the workers of a fleet for their evidence about a key. It stays on the
// board until the next verdict about the key.
type Poll struct {
	Key breaker.Key `json:"key"`
	// Outage is the ID of the workflow that receives the answers.
	Outage string `json:"outage"`
	// Round grows with each poll of a key. A verdict with a greater epoch ends the
	// poll.
	Round int64 `json:"round"`
	// OneIn: about one in OneIn workers answers, chosen at random. 0 and 1: all
	// answer.
	OneIn int `json:"one_in,omitempty"`
	// Workers is the size of the fleet; 0: unknown.
	Workers int `json:"workers,omitempty"`
	// Until is when the outage workflow stops waiting for answers.
	Until time.Time `json:"until"`
}

const (
	// sampleSize is about how many workers of a large fleet are polled, so that the
	// cost of a suspicion does not grow with the fleet. The sample is random.
	// Otherwise the workers whose calls fail would answer first, and a tenth of a
	// fleet could decide.
	sampleSize = 24
	// pollAllUpTo is the largest fleet in which every worker answers, also without
	// traffic. So the poll can end with the last answer.
	pollAllUpTo = 64
)

// OneIn returns the [Poll.OneIn] for a fleet of this size.
func OneIn(workers int) int {
	if workers <= pollAllUpTo {
		return 1
	}
	return workers / sampleSize
}

// IncludesAll returns whether every worker answers, also without traffic.
func (p Poll) IncludesAll() bool { return p.OneIn <= 1 && p.Workers <= pollAllUpTo }

// Includes returns whether a worker is in the poll's sample.
func (p Poll) Includes(worker string) bool { return Sampled(worker, p.Round, p.OneIn) }

// Sampled returns whether a worker is in a random sample of about one in oneIn. The
// round seeds the sample, so that all processes agree on it.
func Sampled(worker string, round int64, oneIn int) bool {
	if oneIn <= 1 {
		return true
	}
	sum := sha256.Sum256([]byte(worker + "/" + strconv.FormatInt(round, 10)))
	return binary.BigEndian.Uint64(sum[:])%uint64(oneIn) == 0
}
