package breaker

import "time"

// Clock tells a breaker the time. Every rule runs on Elapsed alone, so that a
// jump of the wall clock moves nothing; Now only dates what people read. Both may
// be called concurrently.
type Clock interface {
	// Now is the wall-clock time.
	Now() time.Time
	// Elapsed is monotonic time since some fixed moment, not negative. It never
	// goes back.
	Elapsed() time.Duration
}

var processStart = time.Now()

type systemClock struct{}

func (systemClock) Now() time.Time         { return time.Now() }
func (systemClock) Elapsed() time.Duration { return time.Since(processStart) }

// SystemClock is the machine's clock.
func SystemClock() Clock { return systemClock{} }
