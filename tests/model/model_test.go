package model

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// settings is a configuration with its rate and quantile in thousandths, so that
// the reference compares integers.
type settings struct {
	breaker.Config
	rate, quantile int
}

func drawSettings(t *rapid.T) settings {
	s := settings{
		rate:     rapid.SampledFrom([]int{500, 100, 290, 333, 900}).Draw(t, "rate"),
		quantile: rapid.SampledFrom([]int{990, 500, 900, 950, 999}).Draw(t, "quantile"),
	}
	s.Config = breaker.Config{
		Mode:        rapid.SampledFrom([]breaker.Mode{breaker.Enforce, breaker.Enforce, breaker.Enforce, breaker.Observe, breaker.Off}).Draw(t, "mode"),
		Window:      rapid.SampledFrom([]time.Duration{time.Minute, 10 * time.Second, 7 * time.Second}).Draw(t, "window"),
		FailureRate: float64(s.rate) / 1000,
		Quantile:    float64(s.quantile) / 1000,
		Latency:     rapid.SampledFrom([]time.Duration{2 * time.Second, 5 * time.Second, 300 * time.Millisecond}).Draw(t, "latency"),
		ToolLatency: map[string]time.Duration{"label": 9 * time.Second, "ping": 40 * time.Millisecond},
		MinSamples:  rapid.IntRange(1, 8).Draw(t, "min samples"),
		MinSlow:     rapid.IntRange(1, 3).Draw(t, "min slow"),
		Cooldown:    rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second}).Draw(t, "cooldown"),
		MaxCooldown: 30 * time.Second,
		RampStep:    4 * time.Second,
		NoProbe:     rapid.Bool().Draw(t, "no probe"),
	}.WithDefaults()
	if rapid.Bool().Draw(t, "short ramp") {
		s.Ramp = []int{30, 100}
	}
	s.RampMinSamples = 2
	return s
}

var moves = []time.Duration{
	0, time.Millisecond, 50 * time.Millisecond, 400 * time.Millisecond, time.Second, 3 * time.Second, 11 * time.Second, time.Minute,
}

// Each test runs one sequence of operations on a breaker and on the reference, and
// compares their visible state after each operation.
func TestBreaker_EqualsReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSettings(t)
		c := &clock{elapsed: time.Duration(rapid.IntRange(0, 1<<40).Draw(t, "uptime"))}
		registry := breaker.NewRegistry(c, nil)
		random := rapid.SampledFrom([]float64{0, 0.5, 0.999}).Draw(t, "random")
		registry.Random = func() float64 { return random }
		b := registry.Get(breaker.Key{Dependency: "carrier-api", Region: "eu-west"}, s.Config)
		r := &reference{clock: c, random: random, config: s.Config, rate: s.rate, quantile: s.quantile, closedSince: c.elapsed}
		var calls []*call

		for range rapid.SampledFrom([]int{5, 20, 40, 60}).Draw(t, "operations") {
			switch rapid.SampledFrom(operations).Draw(t, "operation") {
			case "allow":
				attempt := rapid.SampledFrom([]int{0, 1, 1, 1, 2, 4}).Draw(t, "attempt")
				tool := rapid.SampledFrom([]string{"", "", "", "label", "ping"}).Draw(t, "tool")
				passes, counted := r.allow(attempt)
				one := &call{counted: counted, limit: r.config.LatencyOf(tool)}
				var refusal *breaker.Refusal
				one.permit, refusal = b.Allow(breaker.Call{Attempt: attempt, Tool: tool})
				require.Equal(t, passes, refusal == nil, "admission")
				if refusal != nil {
					require.Equal(t, r.state, refusal.State)
					require.Equal(t, r.reason, refusal.Reason)
					require.Equal(t, r.next, refusal.RetryAt)
					ticked(r, b)
					break
				}
				calls = append(calls, one)
				if counted {
					r.begin(one)
				}
			case "done":
				if len(calls) == 0 {
					break
				}
				// Mostly the newest calls end, so that there are short and long calls.
				one := calls[len(calls)-1-min(len(calls)-1, rapid.IntRange(0, 3).Draw(t, "which"))]
				outcome := rapid.SampledFrom([]breaker.Outcome{breaker.Success, breaker.Success, breaker.Failure, breaker.Failure, breaker.Ignored}).Draw(t, "outcome")
				one.permit.Done(outcome)
				r.done(one, outcome)
			case "burst":
				// Calls that begin and end at once.
				outcome := rapid.SampledFrom([]breaker.Outcome{breaker.Success, breaker.Failure}).Draw(t, "outcome")
				for range rapid.IntRange(1, 12).Draw(t, "calls") {
					passes, counted := r.allow(1)
					one := &call{counted: counted, limit: r.config.Latency}
					var refusal *breaker.Refusal
					one.permit, refusal = b.Allow(breaker.Call{Attempt: 1})
					require.Equal(t, passes, refusal == nil, "admission")
					if refusal != nil {
						ticked(r, b)
						break
					}
					if counted {
						r.begin(one)
					}
					one.permit.Done(outcome)
					r.done(one, outcome)
				}
			case "move":
				c.elapsed += rapid.SampledFrom(moves).Draw(t, "by")
			case "wait":
				// The clock moves exactly to the next due time.
				if r.state != breaker.Closed && r.until > c.elapsed {
					c.elapsed = r.until
				}
			case "jump":
				c.jumped += rapid.SampledFrom([]time.Duration{-time.Hour, time.Hour, -time.Second}).Draw(t, "wall clock")
			case "tick":
				b.Tick()
				r.tick()
			case "apply":
				v := drawVerdict(t, c, r.epoch)
				b.Apply(v)
				r.apply(v)
			case "configure":
				s := drawSettings(t)
				require.NoError(t, b.Configure(s.Config))
				r.configure(s)
			case "force":
				f := breaker.Force{
					State: rapid.SampledFrom([]breaker.State{breaker.ForcedOpen, breaker.ForcedClosed}).Draw(t, "state"),
					By:    "ann", Note: "a test", For: 10 * time.Second,
				}
				require.NoError(t, b.Force(f))
				r.force(f)
			case "release":
				require.Equal(t, r.release(), b.Release())
			case "hold off":
				d := rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, time.Hour}).Draw(t, "for")
				b.HoldOff(d)
				r.holdOff(d)
			}
			compare(t, r, b)
		}
	})
}

// ticked ticks the reference if a refusal has ticked the breaker. One in 64 does,
// and which one depends on the goroutine.
func ticked(r *reference, b *breaker.Breaker) {
	if r.refused >= 64 && b.Snapshot().Edges != r.edges {
		r.tick()
	}
}

var operations = []string{
	"allow", "allow", "allow", "allow", "done", "done", "done", "done", "burst", "burst",
	"move", "move", "move", "wait", "jump", "tick", "tick", "apply", "configure", "force", "release", "hold off",
}

func drawVerdict(t *rapid.T, c *clock, newest int64) breaker.Verdict {
	v := breaker.Verdict{
		State: rapid.SampledFrom([]breaker.State{
			breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.Recovering, breaker.Recovering, breaker.ForcedOpen, breaker.ForcedClosed,
		}).Draw(t, "verdict"),
		Epoch:  newest + int64(rapid.SampledFrom([]int{1, 1, 1, 2, 0, -1}).Draw(t, "epoch")),
		Since:  c.Now(),
		Next:   c.Now().Add(rapid.SampledFrom([]time.Duration{-time.Hour, time.Second, 5 * time.Second, 10 * time.Hour}).Draw(t, "next")),
		Reason: breaker.Reason{Rule: breaker.RuleProbe},
		Outage: "outage/carrier-api/eu-west",
	}
	if v.State == breaker.Recovering {
		v.Step = rapid.IntRange(0, 3).Draw(t, "step")
		v.Share = []int{10, 25, 50, 100}[v.Step]
	}
	return v
}

func compare(t *rapid.T, r *reference, b *breaker.Breaker) {
	s := b.Snapshot()
	require.Equal(t, r.state, s.State, "state")
	require.Equal(t, r.evidence(), s.Evidence, "evidence")
	require.Equal(t, r.reason, s.Reason, "reason")
	require.Equal(t, r.next, s.Next, "next")
	require.Equal(t, len(r.inflight), s.InFlight, "in flight")
	require.Equal(t,
		[]int64{r.edges, r.refused, r.late, r.doneTwice, r.abandoned, r.epoch},
		[]int64{s.Edges, s.Refused, s.Late, s.DoneTwice, s.Abandoned, s.Epoch},
		"edges, refused, late, done twice, abandoned, epoch")
	if r.state == breaker.Recovering {
		require.Equal(t, r.share, s.Share, "share")
	}
	require.Equal(t, s, b.Snapshot(), "a snapshot changes nothing")
}
