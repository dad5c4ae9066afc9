package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	c := Config{}.WithDefaults()
	quiet := Counts{}
	for _, test := range []struct {
		name string
		e    Evidence
		rule Rule
	}{
		{"nothing", Evidence{}, ""},
		{"at the failure rate", Evidence{Window: Counts{Samples: 20, Failures: 10}}, ""},
		{"over the failure rate", Evidence{Window: Counts{Samples: 20, Failures: 11}}, RuleFailureRate},
		{"over it only in the fast horizon", Evidence{Window: Counts{Samples: 60, Failures: 11}, Fast: Counts{Samples: 20, Failures: 11}}, RuleFailureRate},
		{"one sample short", Evidence{Window: Counts{Samples: 9, Failures: 9}, Fast: Counts{Samples: 9, Failures: 9}}, ""},
		{"minimum in the window, not in the fast horizon", Evidence{Window: Counts{Samples: 10, Failures: 5}, Fast: Counts{Samples: 5, Failures: 5}}, ""},
		{"one slow call among few", Evidence{Window: Counts{Samples: 10, Slow: 1}}, ""},
		{"stragglers enough", Evidence{Window: Counts{Samples: 10, Slow: 3}}, RuleLatency},
		{"at the quantile", Evidence{Window: Counts{Samples: 400, Slow: 4}}, ""},
		{"over the quantile", Evidence{Window: Counts{Samples: 400, Slow: 5}}, RuleLatency},
		{"only hung calls", Evidence{Hung: 10}, RuleLatency},
		{"hung calls complete the minimum", Evidence{Window: Counts{Samples: 7}, Hung: 3}, RuleLatency},
		{"too few hung calls", Evidence{Window: quiet, Hung: 9}, ""},
		{"hung calls do not dilute failures", Evidence{Window: Counts{Samples: 10, Failures: 6}, Hung: 2}, RuleFailureRate},
	} {
		t.Run(test.name, func(t *testing.T) {
			reason, trip := c.Judge(test.e)
			require.Equal(t, test.rule, reason.Rule)
			require.Equal(t, test.rule != "", trip)
		})
	}
}

func TestJudgeRampHasItsOwnMinimum(t *testing.T) {
	c := Config{RampMinSamples: 4}.WithDefaults()
	e := Evidence{Window: Counts{Samples: 4, Failures: 4}}
	_, trip := c.Judge(e)
	require.False(t, trip)
	_, trip = c.JudgeRamp(e)
	require.True(t, trip)
}

// TestTwoHorizons shows the reason for FastWindow's default. A dependency works for
// two minutes and then fails every call.
func TestTwoHorizons(t *testing.T) {
	for _, test := range []struct {
		perSecond int
		errors    time.Duration
		// opensAfter bounds when the breaker opens; 0: it does not.
		opensAfter [2]time.Duration
	}{
		{1, 3 * time.Second, [2]time.Duration{}},
		{10, 3 * time.Second, [2]time.Duration{}},
		{1000, 3 * time.Second, [2]time.Duration{}},
		{1, 10 * time.Second, [2]time.Duration{4500 * time.Millisecond, 6 * time.Second}},
		{10, 10 * time.Second, [2]time.Duration{4500 * time.Millisecond, 6 * time.Second}},
		{1000, 10 * time.Second, [2]time.Duration{4500 * time.Millisecond, 6 * time.Second}},
	} {
		// The position within a slice at which the errors begin must not matter.
		for _, offset := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond} {
			r := newRig(t, Config{})
			r.clock.advance(offset)
			gap := time.Second / time.Duration(test.perSecond)
			run := func(d time.Duration, outcome Outcome) (open time.Duration) {
				for done := time.Duration(0); done < d; done += gap {
					p, refusal := r.Allow(Call{})
					if refusal != nil {
						return done
					}
					p.Done(outcome)
					r.clock.advance(gap)
					r.Tick()
				}
				return 0
			}
			require.Zero(t, run(2*time.Minute, Success))
			open := run(test.errors, Failure)
			if test.opensAfter[1] == 0 {
				require.Zero(t, open, "a blip of %v at %d/s, %v into a slice", test.errors, test.perSecond, offset)
				require.Zero(t, run(time.Minute, Success), "nor does the rest of it")
				continue
			}
			require.GreaterOrEqual(t, open, test.opensAfter[0], "%d/s, %v into a slice", test.perSecond, offset)
			require.LessOrEqual(t, open, test.opensAfter[1], "%d/s, %v into a slice", test.perSecond, offset)
			require.Equal(t, 10*time.Second, r.Snapshot().Reason.Horizon)
		}
	}
}
