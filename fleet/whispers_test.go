package fleet_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolbreaker/toolbreaker/fleet"
)

func TestWhispers_ThreeInAMinuteAreASuspicionWhereNoneAreUsual(t *testing.T) {
	t.Parallel()
	var w fleet.Whispers
	assert.False(t, w.Hear(start))
	assert.False(t, w.Hear(start.Add(20*time.Second)))
	assert.True(t, w.Hear(start.Add(40*time.Second)))
	assert.False(t, w.Hear(start.Add(41*time.Second)), "one suspicion is enough")

	w = fleet.Whispers{}
	for i := range 10 {
		assert.False(t, w.Hear(start.Add(time.Duration(i)*40*time.Second)), "two in a minute are none")
	}
}

// After a false alarm they are only counted for a while, and then what they came
// to is usual.
func TestWhispers_LearnWhatIsNoise(t *testing.T) {
	t.Parallel()
	var w fleet.Whispers
	random := rand.New(rand.NewPCG(1, 2))
	now, suspicions := start, 0
	for now.Before(start.Add(10 * time.Hour)) {
		now = now.Add(time.Duration(random.ExpFloat64() * float64(time.Second)))
		if w.Hear(now) {
			suspicions++
			w.Dismissed(now)
		}
	}
	assert.LessOrEqual(t, suspicions, 5, "one a second, for ten hours")

	// An outage stands out all the same.
	heard := 0
	for !w.Hear(now) {
		now = now.Add(10 * time.Millisecond)
		heard++
	}
	assert.Less(t, heard, 300)
}

func TestWhispers_OfAnOutageAreNoNoise(t *testing.T) {
	t.Parallel()
	var w fleet.Whispers
	for i := range 500 {
		w.Hear(start.Add(time.Duration(i) * time.Millisecond))
	}
	w.Convicted()
	later := start.Add(5 * time.Minute)
	assert.False(t, w.Hear(later))
	assert.False(t, w.Hear(later))
	assert.True(t, w.Hear(later))
}

func TestWhispers_ForgetNoiseAfterAnHour(t *testing.T) {
	t.Parallel()
	var w fleet.Whispers
	for i := range 600 {
		w.Hear(start.Add(time.Duration(i) * time.Second))
	}
	w.Dismissed(start.Add(10 * time.Minute))
	later := start.Add(3 * time.Hour)
	assert.False(t, w.Hear(later))
	assert.False(t, w.Hear(later))
	assert.True(t, w.Hear(later))
}

// The clock of a workflow never goes back, but may stand still or jump.
func TestWhispers_TakeAnyTime(t *testing.T) {
	t.Parallel()
	var w fleet.Whispers
	for _, now := range []time.Time{{}, start, start, start.Add(-time.Hour), start.Add(100 * 365 * 24 * time.Hour)} {
		assert.NotPanics(t, func() { w.Hear(now) })
	}
}

func TestWhisperAgain_CostsOneAnHourInTheLongRun(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 5*time.Second, fleet.WhisperAgain(0))
	assert.Equal(t, 10*time.Second, fleet.WhisperAgain(1))
	assert.Equal(t, time.Hour, fleet.WhisperAgain(10))
	assert.Equal(t, time.Hour, fleet.WhisperAgain(1_000_000))
}
