package member_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/toolbreaker/toolbreaker/fleet/member"
)

// reporters returns when the first worker of a fleet reports, and how many have
// reported a tenth of a second later.
func reporters(workers int, random *rand.Rand) (first time.Duration, reported int) {
	first = time.Hour
	all := make([]time.Duration, workers)
	for i := range all {
		all[i] = member.ReportDelay(random.Float64())
		first = min(first, all[i])
	}
	for _, at := range all {
		if at <= first+100*time.Millisecond {
			reported++
		}
	}
	return first, reported
}

func TestReportDelay_LetsFewWorkersOfAnyFleetReport(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for _, workers := range []int{1, 10, 100, 1000} {
		sum := 0
		const runs = 200
		for range runs {
			first, reported := reporters(workers, random)
			assert.LessOrEqual(t, first, 500*time.Millisecond)
			sum += reported
		}
		assert.Less(t, float64(sum)/runs, 20.0, "fleet of %d", workers)
	}
	assert.Zero(t, member.ReportDelay(0))
}

func TestAnswerDelay_IsShortAtFirstAndDoubles(t *testing.T) {
	t.Parallel()
	assert.Zero(t, member.AnswerDelay(0, 0))
	assert.Equal(t, 50*time.Millisecond, member.AnswerDelay(0, 0.5))
	assert.Equal(t, 500*time.Millisecond, member.AnswerDelay(1, 0.5))
	assert.Equal(t, time.Second, member.AnswerDelay(2, 0.5))
	assert.Equal(t, 2*time.Second, member.AnswerDelay(100, 0.5))
}

func TestHintBackoff_DoublesToAnHour(t *testing.T) {
	t.Parallel()
	assert.Equal(t, 5*time.Second, member.HintBackoff(0))
	assert.Equal(t, 10*time.Second, member.HintBackoff(1))
	assert.Equal(t, time.Hour, member.HintBackoff(10))
	assert.Equal(t, time.Hour, member.HintBackoff(1_000_000))
}
