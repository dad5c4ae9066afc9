package fleet_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolbreaker/toolbreaker/fleet"
)

func TestHints_ThreeInAMinuteAreASuspicionWhereNoneAreUsual(t *testing.T) {
	t.Parallel()
	var w fleet.HintCounter
	assert.False(t, w.Add(start))
	assert.False(t, w.Add(start.Add(20*time.Second)))
	assert.True(t, w.Add(start.Add(40*time.Second)))
	assert.False(t, w.Add(start.Add(41*time.Second)), "one suspicion is enough")

	w = fleet.HintCounter{}
	for i := range 10 {
		assert.False(t, w.Add(start.Add(time.Duration(i)*40*time.Second)), "two in a minute are none")
	}
}

// After a false alarm they are only counted for a while, and then what they came
// to is usual.
func TestHints_LearnWhatIsNoise(t *testing.T) {
	t.Parallel()
	var w fleet.HintCounter
	random := rand.New(rand.NewPCG(1, 2))
	now, suspicions := start, 0
	for now.Before(start.Add(10 * time.Hour)) {
		now = now.Add(time.Duration(random.ExpFloat64() * float64(time.Second)))
		if w.Add(now) {
			suspicions++
			w.Dismissed(now)
		}
	}
	assert.LessOrEqual(t, suspicions, 5, "one a second, for ten hours")

	// An outage stands out all the same.
	heard := 0
	for !w.Add(now) {
		now = now.Add(10 * time.Millisecond)
		heard++
	}
	assert.Less(t, heard, 300)
}

func TestHints_OfAnOutageAreNoNoise(t *testing.T) {
	t.Parallel()
	var w fleet.HintCounter
	for i := range 500 {
		w.Add(start.Add(time.Duration(i) * time.Millisecond))
	}
	w.Confirmed()
	later := start.Add(5 * time.Minute)
	assert.False(t, w.Add(later))
	assert.False(t, w.Add(later))
	assert.True(t, w.Add(later))
}

func TestHints_ForgetNoiseAfterAnHour(t *testing.T) {
	t.Parallel()
	var w fleet.HintCounter
	for i := range 600 {
		w.Add(start.Add(time.Duration(i) * time.Second))
	}
	w.Dismissed(start.Add(10 * time.Minute))
	later := start.Add(3 * time.Hour)
	assert.False(t, w.Add(later))
	assert.False(t, w.Add(later))
	assert.True(t, w.Add(later))
}

// The clock of a workflow never goes back, but may stand still or jump.
func TestHints_TakeAnyTime(t *testing.T) {
	t.Parallel()
	var w fleet.HintCounter
	for _, now := range []time.Time{{}, start, start, start.Add(-time.Hour), start.Add(100 * 365 * 24 * time.Hour)} {
		assert.NotPanics(t, func() { w.Add(now) })
	}
}
