package breaker

// Counts are the outcomes of calls over some time.
type Counts struct {
	// Samples is how many calls were counted.
	Samples int `json:"samples"`
	// Failures is how many of them failed.
	Failures int `json:"failures"`
	// Slow is how many of them took longer than the latency threshold, failed
	// ones included.
	Slow int `json:"slow"`
}

// Add returns the sum of c and o.
func (c Counts) Add(o Counts) Counts {
	return Counts{Samples: c.Samples + o.Samples, Failures: c.Failures + o.Failures, Slow: c.Slow + o.Slow}
}

// Sub returns c without o.
func (c Counts) Sub(o Counts) Counts {
	return Counts{Samples: c.Samples - o.Samples, Failures: c.Failures - o.Failures, Slow: c.Slow - o.Slow}
}

// FailureRate returns the share of failed calls, 0 without calls.
func (c Counts) FailureRate() float64 {
	if c.Samples == 0 {
		return 0
	}
	return float64(c.Failures) / float64(c.Samples)
}
