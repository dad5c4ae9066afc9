package fleet_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/toolbreaker/toolbreaker/fleet"
)

func TestOneIn_PollsAllOfASmallFleetAndASampleOfALargeOne(t *testing.T) {
	t.Parallel()
	for workers, oneIn := range map[int]int{0: 1, 1: 1, 40: 1, 64: 1, 65: 2, 100: 4, 1000: 41, 10_000: 416} {
		assert.Equal(t, oneIn, fleet.OneIn(workers), "fleet of %d", workers)
	}
}

// The names of processes are similar. The sample must still be random.
func TestSampled_IsRandom(t *testing.T) {
	t.Parallel()
	for _, oneIn := range []int{2, 3, 31, 32} {
		sampled, again := 0, 0
		const workers, rounds = 1000, 50
		for round := range int64(rounds) {
			for w := range workers {
				name := fmt.Sprintf("%d.1@host-%d", 7+w%3, w)
				if fleet.Sampled(name, 1_700_000_000_000+round, oneIn) {
					sampled++
					if fleet.Sampled(name, 1_700_000_000_001+round, oneIn) {
						again++
					}
				}
			}
		}
		assert.InEpsilon(t, float64(workers*rounds)/float64(oneIn), sampled, 0.1, "one in %d", oneIn)
		assert.InEpsilon(t, float64(sampled)/float64(oneIn), again, 0.25, "each round draws a new sample")
	}
	assert.True(t, fleet.Sampled("worker-1", 1, 0))
	assert.True(t, fleet.Sampled("worker-1", 1, 1))
}
