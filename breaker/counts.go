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

// add returns the sum of c and o.
func (c Counts) add(o Counts) Counts {
	return Counts{Samples: c.Samples + o.Samples, Failures: c.Failures + o.Failures, Slow: c.Slow + o.Slow}
}

// sub returns c without o.
func (c Counts) sub(o Counts) Counts {
	return Counts{Samples: c.Samples - o.Samples, Failures: c.Failures - o.Failures, Slow: c.Slow - o.Slow}
}

// failureRate returns the share of failed calls, 0 without calls.
func (c Counts) failureRate() float64 {
	if c.Samples == 0 {
		return 0
	}
	return float64(c.Failures) / float64(c.Samples)
}
