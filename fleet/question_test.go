package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/toolbreaker/toolbreaker/fleet"
)

func TestOneIn_AsksASmallFleetWholeAndAJuryOfALargeOne(t *testing.T) {
	t.Parallel()
	for workers, oneIn := range map[int]int{0: 1, 1: 1, 40: 1, 64: 1, 65: 2, 100: 4, 1000: 41, 10_000: 416} {
		assert.Equal(t, oneIn, fleet.OneIn(workers), "of %d", workers)
	}
}

// Names of processes are much alike; the lot must tell them apart all the same.
func TestDrawn_IsAFairLot(t *testing.T) {
	t.Parallel()
	for _, oneIn := range []int{2, 3, 31, 32} {
		drawn, again := 0, 0
		const workers, rounds = 1000, 50
		for round := range int64(rounds) {
			for w := range workers {
				name := fmt.Sprintf("%d.1@host-%d", 7+w%3, w)
				if fleet.Drawn(name, 1_700_000_000_000+round, oneIn) {
					drawn++
					if fleet.Drawn(name, 1_700_000_000_001+round, oneIn) {
						again++
					}
				}
			}
		}
		assert.InEpsilon(t, float64(workers*rounds)/float64(oneIn), drawn, 0.1, "one in %d", oneIn)
		assert.InEpsilon(t, float64(drawn)/float64(oneIn), again, 0.25, "each round anew")
	}
	assert.True(t, fleet.Drawn("anyone", 1, 0))
	assert.True(t, fleet.Drawn("anyone", 1, 1))
}

// speakers gives how many of a fleet have spoken a tenth of a second after the
// first, and when that one did.
func speakers(workers int, random *rand.Rand) (first time.Duration, spoken int) {
	first = time.Hour
	all := make([]time.Duration, workers)
	for i := range all {
		all[i] = fleet.SpeakAfter(random.Float64())
		first = min(first, all[i])
	}
	for _, at := range all {
		if at <= first+100*time.Millisecond {
			spoken++
		}
	}
	return first, spoken
}

func TestSpeakAfter_LetsFewSpeakWhateverTheFleet(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, workers := range []int{1, 10, 100, 1000} {
		sum := 0
		const runs = 200
		for range runs {
			first, spoken := speakers(workers, random)
			assert.LessOrEqual(t, first, 500*time.Millisecond)
			sum += spoken
		}
		assert.Less(t, float64(sum)/runs, 20.0, "of %d", workers)
	}
	assert.Zero(t, fleet.SpeakAfter(0))
}

func TestAnswerAfter_ComesAtOnceThenSeldomer(t *testing.T) {
	t.Parallel()
	assert.Zero(t, fleet.AnswerAfter(0, 0))
	assert.Equal(t, 50*time.Millisecond, fleet.AnswerAfter(0, 0.5))
	assert.Equal(t, 500*time.Millisecond, fleet.AnswerAfter(1, 0.5))
	assert.Equal(t, time.Second, fleet.AnswerAfter(2, 0.5))
	assert.Equal(t, 2*time.Second, fleet.AnswerAfter(100, 0.5))
}
