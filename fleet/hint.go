package fleet

import (
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// Hint tells the board that a worker's calls to a key fail or are slow, but are
// too few for a report.
type Hint struct {
	Key    breaker.Key `json:"key"`
	Worker string      `json:"worker"`
}

// HintCounter tells when the hints about a key are more than noise. It learns the
// noise: the most hints in a minute of the last hour in which there was no outage.
// The zero value has counted none. It counts in whole numbers, so that a replay
// on any machine gives the same result.
type HintCounter struct {
	// Buckets count by ten seconds over two minutes. Current is the number of the
	// running bucket.
	Buckets [12]int `json:"buckets"`
	Current int64   `json:"current"`
	// Peaks hold the busiest minute of each ten minutes over an hour.
	Peaks [6]int `json:"peaks"`
	// MutedUntil is until when hints are counted and raise no suspicion.
	MutedUntil time.Time `json:"muted_until,omitzero"`
	// Dismissals is how many suspicions in a row were dismissed.
	Dismissals int `json:"dismissals,omitempty"`
}

const (
	bucketLength = 10 * time.Second
	// minHints is how many hints within a minute are a suspicion where the noise is
	// none. Each hint of noise raises the minimum by two.
	minHints = 3
	// muteFor is how long a dismissed suspicion mutes the next one. It doubles with
	// each dismissal in a row, up to maxMute. The first one is short: a thin fleet
	// may be polled before it has seen enough of a real outage.
	muteFor = 5 * time.Second
	maxMute = 10 * time.Minute
)

// Add counts one hint and tells whether it raises a suspicion.
func (c *HintCounter) Add(now time.Time) bool {
	c.advance(now)
	c.Buckets[c.Current%int64(len(c.Buckets))]++
	if now.Before(c.MutedUntil) {
		return false
	}
	noise := 0
	for _, p := range c.Peaks {
		noise = max(noise, p)
	}
	if c.minute(0) < minHints+2*noise {
		return false
	}
	// The same hints raise one suspicion only.
	c.MutedUntil = now.Add(bucketLength)
	return true
}

// Dismissed counts the last minute as noise: its suspicion was dismissed.
func (c *HintCounter) Dismissed(now time.Time) {
	c.advance(now)
	c.recordPeak(c.minute(0))
	c.MutedUntil = now.Add(min(muteFor<<min(c.Dismissals, 10), maxMute))
	c.Dismissals++
}

// Confirmed forgets the last minutes: their hints were an outage, not noise.
func (c *HintCounter) Confirmed() { *c = HintCounter{Current: c.Current, Peaks: c.Peaks} }

// isEmpty tells whether the counter may be deleted.
func (c *HintCounter) isEmpty(now time.Time) bool {
	c.advance(now)
	return c.Buckets == [12]int{} && c.Peaks == [6]int{} && !now.Before(c.MutedUntil)
}

// minute is the sum of six buckets, before the newest skip ones.
func (c *HintCounter) minute(skip int64) int {
	sum := 0
	for i := skip; i < skip+6 && i <= c.Current; i++ {
		sum += c.Buckets[(c.Current-i)%int64(len(c.Buckets))]
	}
	return sum
}

// advance moves on to now. A minute counts as noise only after one more minute has
// passed, so that the beginning of an outage does not raise its own minimum.
func (c *HintCounter) advance(now time.Time) {
	target := now.Unix() / int64(bucketLength/time.Second)
	if target-c.Current >= 6*60 {
		*c = HintCounter{Current: target, MutedUntil: c.MutedUntil}
		return
	}
	for c.Current < target {
		c.Current++
		c.Buckets[c.Current%int64(len(c.Buckets))] = 0
		if c.Current%60 == 0 {
			c.Peaks[c.Current/60%int64(len(c.Peaks))] = 0
		}
		c.recordPeak(c.minute(6))
	}
}

func (c *HintCounter) recordPeak(minute int) {
	p := &c.Peaks[c.Current/60%int64(len(c.Peaks))]
	*p = max(*p, minute)
}
