package breaker

import "time"

// Clock gives a breaker the time. Every rule uses only Elapsed, so that a jump of
// the wall clock has no effect. Now dates what people read. Both may be called
// concurrently.
type Clock interface {
	// Now returns the wall-clock time.
	Now() time.Time
	// Elapsed returns the monotonic time since a fixed moment. It is not negative and
	// never goes back.
	Elapsed() time.Duration
}

var processStart = time.Now()

type systemClock struct{}

func (systemClock) Now() time.Time         { return time.Now() }
func (systemClock) Elapsed() time.Duration { return time.Since(processStart) }

// SystemClock returns the machine's clock.
func SystemClock() Clock { return systemClock{} }
