package breaker_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// clock replaces the machine's clock, so that the examples need no waiting.
type clock struct{ elapsed time.Duration }

func (c *clock) Elapsed() time.Duration { return c.elapsed }
func (c *clock) Now() time.Time {
	return time.Date(2026, 12, 1, 14, 0, 0, 0, time.UTC).Add(c.elapsed)
}

var carrier = breaker.Key{Dependency: "carrier-api", Region: "eu-west"}

func Example() {
	c := &clock{}
	registry := breaker.NewRegistry(c, nil)
	registry.Random = func() float64 { return 0.5 }
	b := registry.Get(carrier, breaker.Config{MinSamples: 4, Cooldown: 10 * time.Second})

	for range 5 {
		permit, refusal := b.Allow(breaker.Call{Attempt: 1})
		if refusal != nil {
			fmt.Printf("%s, because %s; try again at %s\n",
				refusal.State, refusal.Reason, refusal.RetryAt.Format(time.TimeOnly))
			break
		}
		permit.Done(breaker.Failure)
	}
	c.elapsed += 10 * time.Second
	registry.Tick() // a program uses registry.Run
	fmt.Println(b.Snapshot().State)
	// Output:
	// open, because 4 of 4 calls failed in 10s (over 50%); try again at 14:00:10
	// half-open
}

// Hanging calls trip the breaker before any of them ends.
func ExampleBreaker_Tick() {
	c := &clock{}
	b := breaker.NewRegistry(c, nil).Get(carrier, breaker.Config{Latency: 2 * time.Second})
	for range 10 {
		b.Allow(breaker.Call{})
	}
	c.elapsed += 2200 * time.Millisecond
	b.Tick()
	fmt.Println(b.Snapshot().State)
	fmt.Println(b.Snapshot().Reason)
	// Output:
	// open
	// 10 of 10 calls slower than 2s in 1m0s (p99 over the threshold), 10 of them still hanging
}

func ExampleBreaker_Force() {
	c := &clock{}
	b := breaker.NewRegistry(c, nil).Get(carrier, breaker.Config{})
	err := b.Force(breaker.Force{State: breaker.ForcedOpen, By: "ann", Note: "carrier maintenance", For: time.Hour})
	fmt.Println(err)
	_, refusal := b.Allow(breaker.Call{})
	fmt.Println(refusal.State, "-", refusal.Reason)
	b.Release()
	fmt.Println(b.Snapshot().State)
	// Output:
	// <nil>
	// forced-open - forced by ann: carrier maintenance
	// recovering
}

func ExampleBreaker_Apply() {
	c := &clock{}
	b := breaker.NewRegistry(c, nil).Get(carrier, breaker.Config{})
	b.Apply(breaker.Verdict{State: breaker.Open, Epoch: 7, Next: c.Now().Add(30 * time.Second), Outage: "outage/carrier-api/eu-west"})
	b.Apply(breaker.Verdict{State: breaker.Closed, Epoch: 6}) // older, so ignored
	fmt.Println(b.Snapshot().State, b.Snapshot().Outage)
	// Output:
	// open outage/carrier-api/eu-west
}

func ExampleConfig_Validate() {
	fmt.Println(breaker.Config{FailureRate: 50, FastWindow: 2 * time.Minute, Ramp: []int{50, 20}}.Validate())
	// Output:
	// FastWindow: 2m0s is longer than Window, 1m0s
	// FailureRate: 50 is out of range; a share between 0 and 1, exclusive, such as 0.5
	// Ramp[1]: 20 does not rise over the step before, 50
}

func ExampleConfig_UnmarshalJSON() {
	var c breaker.Config
	fmt.Println(json.Unmarshal([]byte(`{"latency": "2s", "failure_rate": 0.3, "tool_latency": {"create_return_label": "20s"}}`), &c))
	fmt.Println(c.Latency, c.LatencyOf("create_return_label"))
	fmt.Println(json.Unmarshal([]byte(`{"latency": 2, "cooldown": "soon"}`), &c))
	// Output:
	// <nil>
	// 2s 20s
	// latency: 2 is not a duration; write it as text with a unit, such as "30s"
	// cooldown: "soon" is not a duration, such as "30s" or "1m30s"
}

// The windows of a week in observe mode, one of them during an outage.
func ExampleSuggest() {
	c := breaker.Config{Latency: 30 * time.Second}
	var windows []breaker.Observation
	for n := range 200 {
		w := breaker.Observation{Counts: breaker.Counts{Samples: 100, Failures: n % 4}}
		w.Latencies.Add(300*time.Millisecond, 95)
		w.Latencies.Add(900*time.Millisecond, 5)
		windows = append(windows, w)
	}
	windows[100].Failures = 80
	s := breaker.Suggest(c, windows)
	fmt.Printf("latency %v, failure rate %v: %.1f %% of %d windows would have tripped, %.1f %% with the present limits\n",
		s.Latency, s.FailureRate, 100*s.Tripped, s.Windows, 100*s.TrippedNow)
	// Output:
	// latency 2s, failure rate 0.05: 0.5 % of 200 windows would have tripped, 0.5 % with the present limits
}
