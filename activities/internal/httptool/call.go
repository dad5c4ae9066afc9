package httptool

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/toolbreaker/toolbreaker/breaker"
)

const (
	// DefaultTimeout is the limit of one call where API.Timeout is zero.
	DefaultTimeout = 30 * time.Second

	// maxAnswer bounds the memory of one answer.
	maxAnswer = 1 << 20

	// An unread body costs the connection. What is left of one is read up to
	// these limits, so that a stalled or endless body cannot hold the call.
	maxDrain   = 64 << 10
	drainLimit = 100 * time.Millisecond
)

// API is one dependency reached over HTTP. It is a value: copies share nothing
// but the HTTP client, which is safe for concurrent use.
type API struct {
	Dependency string        // name used in error messages
	BaseURL    string        // scheme, host and optional path prefix
	HTTP       *http.Client  // nil: a client shared by all tools of the process
	Timeout    time.Duration // limit of one call; zero or less: DefaultTimeout
}

// Request is one call of a tool.
type Request struct {
	Tool   string   // name used in error messages
	Method string   // an http.Method constant
	Path   []string // segments below the base URL, each escaped
	Body   any      // sent as JSON; nil: no body
}

// Call sends req to api and decodes its answer, which complete must accept: an
// unrelated JSON object decodes into any struct, and leaves it empty.
//
// A call that the workflow or the worker's shutdown cancelled ends in
// context.Canceled. Every other failure is a *temporal.ApplicationError of one of
// the Type constants or, caused by a *toolerror.HTTP, of the status's name; it is
// retryable unless the dependency answered with a refusal: 4xx but for 408 and 429.
func Call[T any](ctx context.Context, api API, req Request, complete func(T) bool) (T, error) {
	var answer, none T
	body, err := api.exchange(ctx, req)
	if err != nil {
		return none, err
	}
	// The decoder's error quotes the answer, so its text stays here.
	if json.Unmarshal(body, &answer) != nil || !complete(answer) {
		return none, api.badAnswer(req, "not the expected JSON")
	}
	return answer, nil
}

// exchange performs req and returns the body of a 2xx answer.
func (a API) exchange(ctx context.Context, req Request) ([]byte, error) {
	timeout := a.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	callCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	httpReq, err := a.newRequest(callCtx, req)
	if err != nil {
		return nil, err
	}
	client := a.HTTP
	if client == nil {
		client = sharedClient
	}
	resp, err := client.Do(httpReq)
	if err != nil {
		return nil, a.transportError(ctx, req, err)
	}
	defer resp.Body.Close()

	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		drain(resp.Body, cancel)
		return nil, a.statusError(req, resp)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, a.transportError(ctx, req, err)
	}
	if len(body) > maxAnswer {
		return nil, a.badAnswer(req, "larger than 1 MiB")
	}
	return body, nil
}

func (a API) newRequest(ctx context.Context, req Request) (*http.Request, error) {
	target := strings.TrimRight(a.BaseURL, "/")
	for _, segment := range req.Path {
		target += "/" + url.PathEscape(segment)
	}
	var body io.Reader
	if req.Body != nil {
		encoded, err := json.Marshal(req.Body)
		if err != nil {
			return nil, a.badRequest(req, "its body has no JSON form")
		}
		body = bytes.NewReader(encoded)
	}
	httpReq, err := http.NewRequestWithContext(ctx, req.Method, target, body)
	if err != nil {
		// The cause quotes the base URL, which may carry a password.
		return nil, a.badRequest(req, "its base URL is not a URL")
	}
	httpReq.Header.Set("Accept", "application/json")
	httpReq.Header.Set("X-Call-Kind", callKind(ctx))
	if body != nil {
		httpReq.Header.Set("Content-Type", "application/json")
	}
	if key := idempotencyKey(ctx); key != "" && req.Method != http.MethodGet {
		httpReq.Header.Set("Idempotency-Key", key)
	}
	return httpReq, nil
}

// callKind tells the dependency whether a customer is behind the call.
func callKind(ctx context.Context) string {
	if breaker.IsProbe(ctx) {
		return "probe"
	}
	return "customer"
}

// idempotencyKey is the same for all attempts of one activity and differs
// between activities; empty outside an activity.
func idempotencyKey(ctx context.Context) string {
	if !activity.IsActivity(ctx) {
		return ""
	}
	info := activity.GetInfo(ctx)
	run := info.WorkflowExecution.RunID
	if run == "" {
		run = info.ActivityRunID
	}
	return run + "/" + info.ActivityID
}

// drain reads what is left of body so that its connection can be used again,
// and gives the call up where that takes too long.
func drain(body io.Reader, giveUp context.CancelFunc) {
	timer := time.AfterFunc(drainLimit, giveUp)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, maxDrain)
}
