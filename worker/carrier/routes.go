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

// The values of Call.Tool.
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

// endpoint returns the status and the JSON value of a successful call.
type endpoint func(r *http.Request, body []byte) (status int, value any)

// call serves an API call with the region's fault.
func (s *Server) call(reg *region, tool string, answer endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := Customer
		if r.Header.Get("X-Call-Kind") == string(Probe) {
			kind = Probe
		}
		s.serve(w, r, reg, Call{Tool: tool, Kind: kind}, reg.planCall, answer)
	})
}

// health serves a health check.
func (s *Server) health(reg *region) http.Handler {
	ok := func(*http.Request, []byte) (int, any) {
		return http.StatusOK, map[string]string{"status": "ok"}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, reg, Call{Tool: toolHealth, Kind: HealthCheck}, reg.planHealth, ok)
	})
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, reg *region, c Call, newPlan func() plan, answer endpoint) {
	c.At = time.Now()
	if reg != s.orders {
		c.Region = reg.name
	}
	n := s.calls.start(c)

	// net/http detects a closed connection only after the body is read.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	p := newPlan()
	if !s.wait(r.Context(), p) {
		s.calls.end(n, c.Region, 0)
		// A plain return would send an empty 200.
		panic(http.ErrAbortHandler)
	}

	status, value := p.status, any(nil)
	switch {
	case status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(reg.timing.retryAfter))
		value = failure{"too many requests"}
	case status != http.StatusOK:
		value = failure{"the carrier is unavailable"}
	case err != nil:
		status, value = http.StatusBadRequest, failure{"the body could not be read"}
	default:
		status, value = answer(r, body)
	}
	// Recorded before it is sent, so that a client with an answer finds it counted.
	s.calls.end(n, c.Region, status)
	respond(w, status, value)
}

// wait waits for the duration of p and reports whether to answer the call.
func (s *Server) wait(ctx context.Context, p plan) bool {
	if !p.hang {
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

// notFound answers with the valid regions or endpoints.
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

// failure is the body of an error.
type failure struct {
	Error string `json:"error"`
}

func respond(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value) // fails if the client has disconnected
}
