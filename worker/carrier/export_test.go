package carrier

import "time"

// MaxCalls is the bound of Calls.
const MaxCalls = maxCalls

// Arrive records a call as if it had come over HTTP, and returns its end: filling
// the journal over HTTP would take minutes.
func (s *Server) Arrive(c Call) (leave func(status int)) {
	n := s.journal.arrive(c)
	return func(status int) { s.journal.leave(n, c.Region, status) }
}

// NextWork draws the work of a call to region.
func (s *Server) NextWork(region string) time.Duration {
	return s.regions[region].planCall().after
}
