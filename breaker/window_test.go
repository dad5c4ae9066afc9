package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWindowForgets(t *testing.T) {
	for _, test := range []struct {
		name   string
		moves  []time.Duration
		jump   time.Duration
		window int
		fast   int
	}{
		{"at once", nil, 0, 5, 5},
		{"within the fast horizon", []time.Duration{9 * time.Second}, 0, 5, 5},
		{"past the fast horizon", []time.Duration{11 * time.Second}, 0, 5, 0},
		{"within the window", []time.Duration{59 * time.Second}, 0, 5, 0},
		{"past the window", []time.Duration{61 * time.Second}, 0, 0, 0},
		{"slept for longer than the window", []time.Duration{100 * time.Hour}, 0, 0, 0},
		{"slept for a whole number of windows", []time.Duration{61 * time.Second * 1000}, 0, 0, 0},
		{"wall clock ahead", nil, 48 * time.Hour, 5, 5},
		{"wall clock back", nil, -48 * time.Hour, 5, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, read := range []bool{true, false} {
				r := newRig(t, Config{})
				r.clock.advance(time.Hour)
				r.calls(5, Failure)
				r.clock.jump(test.jump)
				for _, d := range test.moves {
					r.clock.advance(d)
				}
				if !read {
					// Writing expires slices as reading does.
					r.calls(1, Success)
					test.window, test.fast = test.window+1, test.fast+1
				}
				e := r.Evidence()
				require.Equal(t, test.window, e.Window.Samples)
				require.Equal(t, test.fast, e.Fast.Samples)
			}
		})
	}
}

// A place in the ring of slices is empty before it is used again.
func TestWindowSlicesAreClearedBeforeTheyAreUsed(t *testing.T) {
	s := newSettings(Config{}.WithDefaults())
	w := newWindow(0, s)
	for second := range 300 {
		w.advance(time.Duration(second) * time.Second)
		require.Equal(t, slice{}, *w.at(w.current))
		w.record(Counts{Samples: second, Failures: 1})
	}
	require.Equal(t, windowSlices+1, w.total.Failures)
	require.Equal(t, 11, w.fast.Failures)
}

func TestReshapeKeepsWhatTheNewWindowCovers(t *testing.T) {
	from := newSettings(Config{}.WithDefaults())
	to := newSettings(Config{Window: 20 * time.Second}.WithDefaults())
	w := newWindow(0, from)
	for second := range 100 {
		w.advance(time.Duration(second) * time.Second)
		w.record(Counts{Samples: 1})
	}
	n := w.reshape(99*time.Second, to)
	require.Equal(t, 21, n.total.Samples, "20 s and the running slice")
	back := n.reshape(99*time.Second, from)
	require.Equal(t, 21, back.total.Samples, "no sample is lost, and no expired one returns")
}
