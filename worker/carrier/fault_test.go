package carrier_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	tools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

func TestError_Answers503(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Work: never})
	require.NoError(t, s.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Error}))
	assert.Equal(t, http.StatusServiceUnavailable, httpStatus(t, status(t, client(t, s), carrier.EUWest)))
	assert.Equal(t, http.StatusServiceUnavailable, request(t, "GET", s.URL()+"/eu-west/health").StatusCode)
}

func TestLying_HealthIsOKWhileTheAPIFails(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Work: never})
	require.NoError(t, s.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Lying}))
	assert.Equal(t, http.StatusServiceUnavailable, httpStatus(t, status(t, client(t, s), carrier.EUWest)))
	assert.Equal(t, http.StatusOK, request(t, "GET", s.URL()+"/eu-west/health").StatusCode)
}

func TestRateLimited_SetsRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		speed float64
		want  time.Duration
	}{
		{speed: 1, want: 5 * time.Second},
		{speed: 2, want: 3 * time.Second}, // 2.5 s, rounded up
		{speed: 1000, want: time.Second},
	} {
		s := start(t, carrier.Options{Work: never, Speed: tt.speed})
		require.NoError(t, s.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.RateLimited}))

		err := status(t, client(t, s), carrier.EUWest)
		assert.Equal(t, http.StatusTooManyRequests, httpStatus(t, err))
		var httpErr *tools.HTTPError
		require.ErrorAs(t, err, &httpErr)
		assert.Equal(t, tt.want, httpErr.RetryAfterHint())
		assert.Equal(t, http.StatusTooManyRequests, request(t, "GET", s.URL()+"/eu-west/health").StatusCode)
	}
}

func TestSlow_TakesTenTimesTheWork(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Work: 20 * time.Millisecond})
	require.NoError(t, s.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Slow}))

	begin := time.Now()
	require.NoError(t, status(t, client(t, s), carrier.EUWest))
	assert.GreaterOrEqual(t, time.Since(begin), 160*time.Millisecond, "ten times the shortest call")

	begin = time.Now()
	assert.Equal(t, http.StatusOK, request(t, "GET", s.URL()+"/eu-west/health").StatusCode)
	assert.GreaterOrEqual(t, time.Since(begin), 200*time.Millisecond)
}

func TestHealthy_AnswersAfterTheNormalDuration(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Work: 2 * time.Second, Speed: 100})
	begin := time.Now()
	require.NoError(t, status(t, client(t, s), carrier.EUWest))
	assert.GreaterOrEqual(t, time.Since(begin), 16*time.Millisecond, "the shortest call at this speed")
	assert.Equal(t, http.StatusOK, request(t, "GET", s.URL()+"/eu-west/health").StatusCode)
}

func TestHealthy_DurationDependsOnTheSeed(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64) (works []time.Duration) {
		s := start(t, carrier.Options{Work: time.Second, Seed: seed})
		for range 100 {
			works = append(works, s.NextWork(carrier.EUWest))
		}
		return works
	}
	works := draw(1)
	assert.GreaterOrEqual(t, slices.Min(works), 800*time.Millisecond)
	assert.LessOrEqual(t, slices.Max(works), 1200*time.Millisecond)
	assert.Greater(t, slices.Max(works)-slices.Min(works), 300*time.Millisecond)
	assert.Equal(t, works, draw(1))
	assert.NotEqual(t, works, draw(2))
}

func TestHang_NeverAnswers(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Speed: fast})
	require.NoError(t, s.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Hang}))
	c := client(t, s)
	c.Timeout = 50 * time.Millisecond

	q := tools.Query{TrackingID: "PKG-1001", Region: carrier.EUWest}
	_, err := c.GetDeliveryStatus(t.Context(), q)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = c.CreateReturnLabel(t.Context(), q)
	assert.ErrorIs(t, err, context.DeadlineExceeded)

	assert.Eventually(t, func() bool { return s.State().Regions[carrier.EUWest].InFlight == 0 },
		10*time.Second, time.Millisecond, "the server detects that the client has disconnected")
	assert.Equal(t, 2, s.Count(func(c carrier.Call) bool { return c.Status == 0 }))
	assert.NoError(t, status(t, c, carrier.USEast), "the other region is healthy")
}

func TestHang_HealthHangsToo(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Speed: fast})
	require.NoError(t, s.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Hang}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/eu-west/health", nil)
	require.NoError(t, err)
	resp, err := client(t, s).HTTP.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// A call in progress when the hang starts is never answered, even if the region is
// repaired before the call would have ended.
func TestHang_AffectsCallsInProgress(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Work: time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	c := client(t, s)
	lost := inBackground(ctx, t, s, c)
	require.NoError(t, s.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Hang}))
	require.NoError(t, s.SetFault(carrier.EUWest, carrier.Fault{}))

	assert.NoError(t, status(t, c, carrier.EUWest), "a call after the hang is answered")
	assert.ErrorIs(t, <-lost, context.DeadlineExceeded)
}

func TestFlaky_FailuresDependOnTheSeed(t *testing.T) {
	t.Parallel()
	const calls = 200
	// run returns which calls failed. healthChecks adds a health check before every tenth.
	run := func(seed uint64, share float64, healthChecks bool) (failed []bool) {
		s := start(t, carrier.Options{Speed: 10 * fast, Seed: seed})
		c := client(t, s)
		require.NoError(t, s.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Flaky, Share: share}))
		for i := range calls {
			if healthChecks && i%10 == 0 {
				request(t, "GET", s.URL()+"/eu-west/health")
			}
			err := status(t, c, carrier.EUWest)
			if err != nil {
				assert.Equal(t, http.StatusServiceUnavailable, httpStatus(t, err))
			}
			failed = append(failed, err != nil)
		}
		return failed
	}

	first := run(1, 0.3, false)
	assert.InDelta(t, 0.3*calls, count(first), 0.1*calls)
	assert.Equal(t, first, run(1, 0.3, false), "the same seed gives the same sequence")
	assert.Equal(t, first, run(1, 0.3, true), "health checks do not change the sequence")
	assert.NotEqual(t, first, run(2, 0.3, false), "another seed gives another sequence")
	assert.Zero(t, count(run(3, 0, false)))
	assert.Equal(t, calls, count(run(3, 1, false)))
}

func count(failed []bool) (n int) {
	for _, f := range failed {
		if f {
			n++
		}
	}
	return n
}

func TestFlaky_SettingTheFaultRestartsTheSequence(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Speed: 10 * fast})
	c := client(t, s)
	var rounds [2][]bool
	for i := range rounds {
		require.NoError(t, s.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Flaky, Share: 0.5}))
		for range 30 {
			rounds[i] = append(rounds[i], status(t, c, carrier.EUWest) != nil)
		}
	}
	assert.Equal(t, rounds[0], rounds[1])
}

func TestSetFault_InvalidValues(t *testing.T) {
	t.Parallel()
	s := start(t, carrier.Options{Speed: fast})
	for _, tt := range []struct {
		region string
		fault  carrier.Fault
		want   string
	}{
		{"mars-1", carrier.Fault{Kind: carrier.Hang}, `unknown region "mars-1": use eu-west or us-east`},
		{carrier.EUWest, carrier.Fault{Kind: "tired"},
			`unknown fault kind "tired": use healthy, hang, slow, error, flaky, rate-limited or lying`},
		{carrier.EUWest, carrier.Fault{Kind: carrier.Flaky, Share: 1.1}, "share must be a number from 0 to 1, got 1.1"},
		{carrier.EUWest, carrier.Fault{Kind: carrier.Flaky, Share: -0.1}, "share must be a number from 0 to 1, got -0.1"},
		{carrier.EUWest, carrier.Fault{Kind: carrier.Slow, Share: 0.5}, `share is only valid for fault kind "flaky", not for "slow"`},
	} {
		assert.EqualError(t, s.SetFault(tt.region, tt.fault), tt.want)
	}
	assert.Equal(t, carrier.Healthy, s.State().Regions[carrier.EUWest].Fault.Kind, "an invalid fault changes nothing")
}
