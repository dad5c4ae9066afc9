package httptool_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/activities/internal/httptool"
	"github.com/toolbreaker/toolbreaker/breaker"
)

type parcel struct {
	ID string `json:"id"`
}

func (p parcel) complete() bool { return p.ID != "" }

// serve starts a server with this handler and returns an API that calls it.
func serve(t *testing.T, handler http.HandlerFunc) httptool.API {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return httptool.API{Dependency: "parcel-db", BaseURL: server.URL, HTTP: server.Client()}
}

var find = httptool.Request{Tool: "find_parcel", Method: http.MethodGet, Path: []string{"parcels", "P-1"}}

func call(ctx context.Context, api httptool.API) (parcel, error) {
	return httptool.Call(ctx, api, find, parcel.complete)
}

func TestCall_DecodesTheAnswer(t *testing.T) {
	t.Parallel()
	api := serve(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/prefix/parcels/P-1", r.URL.Path)
		assert.Equal(t, "application/json", r.Header.Get("Accept"))
		assert.Equal(t, "customer", r.Header.Get("X-Call-Kind"))
		_, _ = io.WriteString(w, `{"id": "P-1", "unknown": true}`)
	})
	api.BaseURL += "/prefix/"
	got, err := call(t.Context(), api)
	require.NoError(t, err)
	assert.Equal(t, parcel{ID: "P-1"}, got)
}

func TestCall_WithoutAClientUsesTheSharedOne(t *testing.T) {
	t.Parallel()
	api := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"id": "P-1"}`) })
	api.HTTP = nil
	_, err := call(t.Context(), api)
	assert.NoError(t, err)
}

func TestCall_MarksAProbe(t *testing.T) {
	t.Parallel()
	api := serve(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "probe", r.Header.Get("X-Call-Kind"))
		_, _ = io.WriteString(w, `{"id": "P-1"}`)
	})
	_, err := call(breaker.WithProbe(t.Context()), api)
	assert.NoError(t, err)
}

func TestCall_SendsABodyAsJSON(t *testing.T) {
	t.Parallel()
	api := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		assert.JSONEq(t, `{"id": "P-1"}`, string(body))
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
		assert.Empty(t, r.Header.Get("Idempotency-Key"), "no activity, no key")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	})
	req := httptool.Request{Tool: "make_parcel", Method: http.MethodPost, Path: []string{"parcels"}, Body: parcel{ID: "P-1"}}
	got, err := httptool.Call(t.Context(), api, req, parcel.complete)
	require.NoError(t, err)
	assert.Equal(t, parcel{ID: "P-1"}, got)
}

func TestCall_EscapesEverySegment(t *testing.T) {
	t.Parallel()
	api := serve(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/a%2Fb/c%3Fd", r.URL.EscapedPath())
		_, _ = io.WriteString(w, `{"id": "P-1"}`)
	})
	req := find
	req.Path = []string{"a/b", "c?d"}
	_, err := httptool.Call(t.Context(), api, req, parcel.complete)
	assert.NoError(t, err)
}

func TestCall_HasItsOwnTimeout(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{"before the answer": "", "within the answer": `{"id": "P`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if begin != "" {
					_, _ = io.WriteString(w, begin)
					w.(http.Flusher).Flush()
				}
				<-r.Context().Done()
			})
			api.Timeout = 50 * time.Millisecond
			_, err := call(t.Context(), api)
			appErr := applicationError(t, err)
			assert.Equal(t, httptool.TypeTimeout, appErr.Type())
			assert.False(t, appErr.NonRetryable())
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.NotErrorIs(t, err, context.Canceled)
		})
	}
}

func TestCall_AClientsOwnTimeoutIsATimeoutToo(t *testing.T) {
	t.Parallel()
	api := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	api.HTTP.Timeout = 50 * time.Millisecond
	_, err := call(t.Context(), api)
	assert.Equal(t, httptool.TypeTimeout, applicationError(t, err).Type())
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestCall_TimesOutAtTheCallersDeadline(t *testing.T) {
	t.Parallel()
	api := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, fmt.Errorf("the caller's reason"))
	defer cancel()
	_, err := call(ctx, api)
	assert.Equal(t, httptool.TypeTimeout, applicationError(t, err).Type())
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// Temporal treats an activity as cancelled if its error is context.Canceled. The cause
// that the SDK sets at a worker's shutdown is another error.
func TestCall_ACancelledCallReturnsCanceled(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	api := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		cancel(fmt.Errorf("worker is shutting down"))
	}()
	_, err := call(ctx, api)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestCall_NoConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	_, err = call(t.Context(), httptool.API{Dependency: "parcel-db", BaseURL: "http://" + listener.Addr().String()})
	appErr := applicationError(t, err)
	assert.Equal(t, httptool.TypeConnectionFailed, appErr.Type())
	assert.False(t, appErr.NonRetryable())
	assert.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.NotContains(t, err.Error(), "P-1", "the error does not contain the query")
}

func TestCall_BadAnswers(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty":            "",
		"not JSON":         "<html>secret</html>",
		"unrelated object": `{"status": "secret"}`,
		"wrong type":       `{"id": 7}`,
		"cut short":        `{"id": "P-1"`,
		"two values":       `{"id": "P-1"} {"id": "P-2"}`,
		"too large":        `{"id": "` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
			got, err := call(t.Context(), api)
			appErr := applicationError(t, err)
			assert.Equal(t, httptool.TypeBadAnswer, appErr.Type())
			assert.False(t, appErr.NonRetryable())
			assert.NotContains(t, err.Error(), "secret")
			assert.Zero(t, got)
		})
	}
}

func TestCall_BadConfiguration(t *testing.T) {
	t.Parallel()
	_, err := call(t.Context(), httptool.API{BaseURL: "http://user:secret@host:port"})
	assert.Equal(t, httptool.TypeBadRequest, applicationError(t, err).Type())
	assert.NotContains(t, err.Error(), "secret")

	req := find
	req.Body = func() {}
	_, err = httptool.Call(t.Context(), httptool.API{}, req, parcel.complete)
	assert.Equal(t, httptool.TypeBadRequest, applicationError(t, err).Type())
}

func TestCall_ReusesTheConnectionAfterFailures(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, strings.Repeat("x", 16<<10))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	for range 5 {
		_, err := call(t.Context(), httptool.API{BaseURL: server.URL, HTTP: server.Client()})
		assert.Error(t, err)
	}
	assert.EqualValues(t, 1, conns.Load())
}

func TestCall_AStalledErrorBodyDoesNotDelayTheCall(t *testing.T) {
	t.Parallel()
	api := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	api.Timeout = time.Hour
	_, err := call(t.Context(), api)
	assert.Equal(t, "ServiceUnavailable", applicationError(t, err).Type())
}

func TestCall_AnEndlessErrorBodyDoesNotDelayTheCall(t *testing.T) {
	t.Parallel()
	api := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		for {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				return
			}
		}
	})
	api.Timeout = time.Hour
	_, err := call(t.Context(), api)
	assert.Equal(t, "ServiceUnavailable", applicationError(t, err).Type())
}
