package fleet_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolbreaker/toolbreaker/fleet"
)

func TestHintCounter_SuspectsAfterThreeHintsInAMinuteWithoutNoise(t *testing.T) {
	t.Parallel()
	var c fleet.HintCounter
	assert.False(t, c.Add(start))
	assert.False(t, c.Add(start.Add(20*time.Second)))
	assert.True(t, c.Add(start.Add(40*time.Second)))
	assert.False(t, c.Add(start.Add(41*time.Second)), "the same hints raise one suspicion")

	c = fleet.HintCounter{}
	for i := range 10 {
		assert.False(t, c.Add(start.Add(time.Duration(i)*40*time.Second)), "two hints in a minute are no suspicion")
	}
}

// After a dismissal, hints are only counted for a while. Then their number is the
// noise.
func TestHintCounter_LearnsTheNoise(t *testing.T) {
	t.Parallel()
	var c fleet.HintCounter
	random := rand.New(rand.NewPCG(1, 2))
	now, suspicions := start, 0
	for now.Before(start.Add(10 * time.Hour)) {
		now = now.Add(time.Duration(random.ExpFloat64() * float64(time.Second)))
		if c.Add(now) {
			suspicions++
			c.Dismissed(now)
		}
	}
	assert.LessOrEqual(t, suspicions, 5, "one hint a second, for ten hours")

	// An outage still raises a suspicion.
	hints := 0
	for !c.Add(now) {
		now = now.Add(10 * time.Millisecond)
		hints++
	}
	assert.Less(t, hints, 300)
}

func TestHintCounter_DoesNotCountAnOutageAsNoise(t *testing.T) {
	t.Parallel()
	var c fleet.HintCounter
	for i := range 500 {
		c.Add(start.Add(time.Duration(i) * time.Millisecond))
	}
	c.Confirmed()
	later := start.Add(5 * time.Minute)
	assert.False(t, c.Add(later))
	assert.False(t, c.Add(later))
	assert.True(t, c.Add(later))
}

func TestHintCounter_ForgetsNoiseAfterAnHour(t *testing.T) {
	t.Parallel()
	var c fleet.HintCounter
	for i := range 600 {
		c.Add(start.Add(time.Duration(i) * time.Second))
	}
	c.Dismissed(start.Add(10 * time.Minute))
	later := start.Add(3 * time.Hour)
	assert.False(t, c.Add(later))
	assert.False(t, c.Add(later))
	assert.True(t, c.Add(later))
}

// A workflow's clock does not go back, but may stand still or jump.
func TestHintCounter_AcceptsAnyTime(t *testing.T) {
	t.Parallel()
	var c fleet.HintCounter
	for _, now := range []time.Time{{}, start, start, start.Add(-time.Hour), start.Add(100 * 365 * 24 * time.Hour)} {
		assert.NotPanics(t, func() { c.Add(now) })
	}
}
