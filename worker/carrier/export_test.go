package carrier

import "time"

// MaxCalls bounds Calls.
const MaxCalls = maxCalls

// StartCall records a call without HTTP, because MaxCalls requests would take minutes.
func (s *Server) StartCall(c Call) (end func(status int)) {
	n := s.calls.start(c)
	return func(status int) { s.calls.end(n, c.Region, status) }
}

// NextWork returns the duration of the next call to region.
func (s *Server) NextWork(region string) time.Duration {
	return s.regions[region].planCall().after
}
