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
	// DefaultTimeout is used when API.Timeout is 0.
	DefaultTimeout = 30 * time.Second

	// maxAnswer limits the size of an answer, in bytes.
	maxAnswer = 1 << 20

	// A connection can be reused only if its body was read. The rest of a body is read up
	// to these limits, so that a stalled or endless body does not delay the call.
	maxDrain   = 64 << 10
	drainLimit = 100 * time.Millisecond
)

// API is one dependency that is reached over HTTP. Copies share only the HTTP client,
// which is safe for concurrent use.
type API struct {
	Dependency string        // name used in error messages
	BaseURL    string        // scheme, host and optional path prefix
	HTTP       *http.Client  // nil: a client shared by all tools of the process
	Timeout    time.Duration // timeout of one call; 0 or less: DefaultTimeout
}

// Request is one call of a tool.
type Request struct {
	Tool   string   // name used in error messages
	Method string   // an http.Method constant
	Path   []string // segments below the base URL, each escaped
	Body   any      // sent as JSON; nil: no body
}

// Call sends req to api and decodes the answer. complete must accept the answer,
// because an unrelated JSON object decodes into any struct and leaves it empty.
//
// A call that is cancelled by the workflow or by a worker's shutdown ends in
// context.Canceled. Any other failure is a *temporal.ApplicationError. Its type is one of
// the Type constants, or the name of the HTTP status with a *toolerror.HTTP as its cause.
// It is retryable, except for a status of 4xx other than 408 and 429.
func Call[T any](ctx context.Context, api API, req Request, complete func(T) bool) (T, error) {
	var answer, none T
	body, err := api.exchange(ctx, req)
	if err != nil {
		return none, err
	}
	// The decoder's error quotes the answer, so it is not returned.
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

// callKind is the value of the header that marks synthetic calls.
func callKind(ctx context.Context) string {
	if breaker.IsProbe(ctx) {
		return "probe"
	}
	return "customer"
}

// idempotencyKey is the same for all attempts of one activity and differs between
// activities. It is empty outside an activity.
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

// drain reads the rest of body so that its connection can be reused, and cancels the
// call if that takes too long.
func drain(body io.Reader, cancel context.CancelFunc) {
	timer := time.AfterFunc(drainLimit, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, maxDrain)
}
