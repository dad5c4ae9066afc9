package carrier

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The tools whose requests the endpoints serve, as Call.Tool names them.
const (
	toolStatus = "get_delivery_status"
	toolEvents = "get_tracking_events"
	toolLabel  = "create_return_label"
	toolOrder  = "lookup_order"
	toolHealth = "health"
)

// maxBody bounds a request's body.
const maxBody = 64 << 10

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for name, r := range s.regions {
		mux.Handle("GET /"+name+"/status/{trackingID}", s.call(r, toolStatus, parcelStatus))
		mux.Handle("GET /"+name+"/events/{trackingID}", s.call(r, toolEvents, parcelEvents))
		mux.Handle("POST /"+name+"/labels", s.call(r, toolLabel, returnLabel))
		mux.Handle("GET /"+name+"/health", s.health(r))
	}
	mux.Handle("GET /"+ordersName+"/{id}", s.call(s.orders, toolOrder, order))

	mux.HandleFunc("GET /admin", s.showState)
	mux.HandleFunc("PUT /admin/{region}/fault", s.changeFault)
	mux.HandleFunc("POST /admin/{region}/fault", s.changeFault)
	mux.HandleFunc("POST /admin/reset", s.reset)

	mux.HandleFunc("/", notFound)
	return mux
}

// answer is the result of a call's work: a status and what to send as JSON.
type answer func(r *http.Request, body []byte) (status int, value any)

// call serves an API call: it arrives, meets the region's fault, and is answered.
func (s *Server) call(reg *region, tool string, work answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := Customer
		if r.Header.Get("X-Call-Kind") == string(Probe) {
			kind = Probe
		}
		s.serve(w, r, reg, Call{Tool: tool, Kind: kind}, reg.planCall, work)
	})
}

// health serves a health check.
func (s *Server) health(reg *region) http.Handler {
	fine := func(*http.Request, []byte) (int, any) {
		return http.StatusOK, map[string]string{"status": "ok"}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, reg, Call{Tool: toolHealth, Kind: HealthCheck}, reg.planHealth, fine)
	})
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, reg *region, c Call, decide func() plan, work answer) {
	c.At = time.Now()
	if reg != s.orders {
		c.Region = reg.name
	}
	n := s.journal.arrive(c)

	// Until a body is read the server does not notice that its client has left.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	p := decide()
	if !s.work(r.Context(), p) {
		s.journal.leave(n, c.Region, 0)
		// A plain return would be answered with an empty 200.
		panic(http.ErrAbortHandler)
	}

	status, value := p.status, any(nil)
	switch {
	case status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(reg.pace.retryAfter))
		value = failure{"too many requests"}
	case status != http.StatusOK:
		value = failure{"the carrier is out of order"}
	case err != nil:
		status, value = http.StatusBadRequest, failure{"the body could not be read"}
	default:
		status, value = work(r, body)
	}
	// Recorded before it is sent: whoever has the answer finds it counted.
	s.journal.leave(n, c.Region, status)
	respond(w, status, value)
}

// work waits out p and reports whether the call is to be answered.
func (s *Server) work(ctx context.Context, p plan) bool {
	if !p.never {
		timer := time.NewTimer(p.after)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-p.hung:
		case <-ctx.Done():
			return false
		case <-s.stopping:
			return false
		}
	}
	select {
	case <-ctx.Done():
	case <-s.stopping:
	}
	return false
}

// notFound says what would have been found.
func notFound(w http.ResponseWriter, r *http.Request) {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if first != "" && first != "admin" && first != ordersName && !slices.Contains(regionNames, first) {
		respond(w, http.StatusNotFound, failure{fmt.Sprintf("unknown region %q: use %s", first, oneOf(regionNames))})
		return
	}
	respond(w, http.StatusNotFound, failure{"no such endpoint: use GET /{region}/status/{trackingID}, " +
		"GET /{region}/events/{trackingID}, POST /{region}/labels, GET /{region}/health, GET /orders/{id}, " +
		"GET /admin, POST /admin/{region}/fault or POST /admin/reset"})
}

// failure is the body of every answer that is not a success.
type failure struct {
	Error string `json:"error"`
}

func respond(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value) // the client may have left
}
