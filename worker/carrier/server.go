// Package carrier simulates a parcel carrier's API whose regions can be made to
// fail on command, beside an order database that never fails. It is a real HTTP
// server: a hung call hangs a real connection. It records every call that reaches
// it, so that what a circuit breaker kept away is measured rather than believed.
package carrier

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"
	"time"
)

// Options configure Start. The zero value is a healthy carrier at its real pace.
type Options struct {
	// Addr is where to listen. Empty: a free port of 127.0.0.1. Whoever reaches
	// it may change faults.
	Addr string
	// Work is the mean time of a healthy call at speed 1; each call takes between
	// 80 and 120 percent of it. Zero: 2 seconds.
	Work time.Duration
	// Speed divides every duration of the simulation. Zero: 1.
	Speed float64
	// Seed decides the spread of the work and which calls a flaky region fails.
	// Two servers with one seed and one order of calls behave alike.
	Seed uint64
}

// Server is a running simulator. All methods are safe for concurrent use.
type Server struct {
	url     string
	speed   float64
	regions map[string]*region // fixed after Start
	orders  *region
	journal *journal

	http     *http.Server
	stopping chan struct{}  // closed by Stop: nothing is worked on any more
	serving  chan struct{}  // closed when no connection will be accepted any more
	conns    sync.WaitGroup // open connections; grows only until serving is closed
	stop     sync.Once
}

// Start listens and serves until Stop. It fails where it cannot listen, or where
// Work or Speed is negative or not a number.
func Start(o Options) (*Server, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Work == 0 {
		o.Work = 2 * time.Second
	}
	if o.Speed == 0 {
		o.Speed = 1
	}
	if o.Work < 0 {
		return nil, fmt.Errorf("carrier: Work must not be negative, got %v", o.Work)
	}
	if !(o.Speed > 0) || math.IsInf(o.Speed, 0) {
		return nil, fmt.Errorf("carrier: Speed must be a positive number, got %v", o.Speed)
	}
	listener, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("carrier: %w", err)
	}

	s := &Server{
		url:      "http://" + listener.Addr().String(),
		speed:    o.Speed,
		regions:  make(map[string]*region, len(regionNames)),
		orders:   newRegion(ordersName, newPace(orderWork, o.Speed), o.Seed),
		journal:  newJournal(),
		stopping: make(chan struct{}),
		serving:  make(chan struct{}),
	}
	for _, name := range regionNames {
		s.regions[name] = newRegion(name, newPace(o.Work, o.Speed), o.Seed)
	}
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: 10 * time.Second,
		ConnState:         s.track,
	}
	go func() {
		defer close(s.serving)
		_ = s.http.Serve(listener) // always ErrServerClosed: the listener is ours
	}()
	return s, nil
}

// URL is the server's address, such as http://127.0.0.1:8080, without a path.
func (s *Server) URL() string { return s.url }

// Stop cuts every connection, hung ones too, and returns when no goroutine of the
// server is left. Further calls do nothing. Calls and State stay readable.
func (s *Server) Stop() {
	s.stop.Do(func() {
		close(s.stopping)
		_ = s.http.Close()
		<-s.serving
		s.conns.Wait()
	})
}

// track counts open connections: the http.Server does not wait for its own.
func (s *Server) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed:
		s.conns.Done()
	}
}
