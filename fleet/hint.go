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

// HintCounter decides when the hints about a key are a suspicion and not noise. The
// noise is the largest number of hints in one minute of the last hour without an
// outage. The zero value is empty. It uses only integers, so that a replay on any
// machine gives the same result.
type HintCounter struct {
	// Buckets counts the hints of each ten seconds over two minutes. Current is the
	// number of the current bucket.
	Buckets [12]int `json:"buckets"`
	Current int64   `json:"current"`
	// Peaks holds the largest count of one minute in each ten minutes over an hour.
	Peaks [6]int `json:"peaks"`
	// Until MutedUntil, hints are counted but raise no suspicion.
	MutedUntil time.Time `json:"muted_until,omitzero"`
	// Dismissals is the number of consecutive dismissed suspicions.
	Dismissals int `json:"dismissals,omitempty"`
}

const (
	bucketLength = 10 * time.Second
	// minHints is how many hints within a minute are a suspicion when there is no
	// noise. Each hint of noise raises the minimum by two.
	minHints = 3
	// muteFor is how long a dismissed suspicion mutes the next one. It doubles with
	// each consecutive dismissal, up to maxMute. It starts short, because a fleet with
	// few calls may be polled before it has seen enough of a real outage.
	muteFor = 5 * time.Second
	maxMute = 10 * time.Minute
)

// Add counts one hint and returns whether it raises a suspicion.
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
	// The same hints raise only one suspicion.
	c.MutedUntil = now.Add(bucketLength)
	return true
}

// Dismissed counts the last minute as noise, because its suspicion was dismissed.
func (c *HintCounter) Dismissed(now time.Time) {
	c.advance(now)
	c.recordPeak(c.minute(0))
	c.MutedUntil = now.Add(min(muteFor<<min(c.Dismissals, 10), maxMute))
	c.Dismissals++
}

// Confirmed drops the hints of the last minutes. They came from an outage, so they
// are not noise.
func (c *HintCounter) Confirmed() { *c = HintCounter{Current: c.Current, Peaks: c.Peaks} }

// isEmpty returns whether the counter may be deleted.
func (c *HintCounter) isEmpty(now time.Time) bool {
	c.advance(now)
	return c.Buckets == [12]int{} && c.Peaks == [6]int{} && !now.Before(c.MutedUntil)
}

// minute returns the sum of six buckets. It leaves out the newest skip buckets.
func (c *HintCounter) minute(skip int64) int {
	sum := 0
	for i := skip; i < skip+6 && i <= c.Current; i++ {
		sum += c.Buckets[(c.Current-i)%int64(len(c.Buckets))]
	}
	return sum
}

// advance moves the buckets to now. A minute counts as noise only after one more
// minute, so that the start of an outage does not raise its own minimum.
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
