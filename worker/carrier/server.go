// Package carrier simulates a parcel carrier's API with two regions, and an order
// database. Each region can be given a fault. The order database never fails. The
// simulator is a real HTTP server, so a hung call holds a real connection. It records
// every call that reaches it.
package carrier

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"
	"time"
)

// Options configure Start. The zero value is a healthy carrier in real time.
type Options struct {
	// Addr is the address to listen on. Empty: a free port of 127.0.0.1. Every client
	// may change faults.
	Addr string
	// Work is the mean duration of a healthy call at speed 1. Each call takes 80 to
	// 120 percent of it. Zero: 2 seconds.
	Work time.Duration
	// Speed divides every duration of the simulation. Zero: 1.
	Speed float64
	// Seed determines the duration of each call, and which calls a flaky region fails.
	Seed uint64
}

// Server is a running simulator. All methods are safe for concurrent use.
type Server struct {
	url     string
	speed   float64
	regions map[string]*region // fixed after Start
	orders  *region
	calls   *callLog

	http     *http.Server
	stopping chan struct{}  // closed by Stop; calls in progress end unanswered
	serving  chan struct{}  // closed when no more connections are accepted
	conns    sync.WaitGroup // open connections; grows only until serving is closed
	stop     sync.Once
}

// Start listens and serves until Stop. It fails if it cannot listen, or if Work or
// Speed is invalid.
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
		orders:   newRegion(ordersName, newTiming(orderWork, o.Speed), o.Seed),
		calls:    newCallLog(),
		stopping: make(chan struct{}),
		serving:  make(chan struct{}),
	}
	for _, name := range regionNames {
		s.regions[name] = newRegion(name, newTiming(o.Work, o.Speed), o.Seed)
	}
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: 10 * time.Second,
		ConnState:         s.track,
	}
	go func() {
		defer close(s.serving)
		_ = s.http.Serve(listener) // always ErrServerClosed
	}()
	return s, nil
}

// URL is the server's address, such as http://127.0.0.1:8080, without a path.
func (s *Server) URL() string { return s.url }

// Stop closes every connection and returns when no goroutine of the server is left.
// It may be called again. Calls and State stay readable.
func (s *Server) Stop() {
	s.stop.Do(func() {
		close(s.stopping)
		_ = s.http.Close()
		<-s.serving
		s.conns.Wait()
	})
}

// track counts open connections, because http.Server does not wait for them.
func (s *Server) track(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed:
		s.conns.Done()
	}
}
