package interceptor_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// httpError is a tool's error with an HTTP status.
type httpError int

func (e httpError) Error() string   { return fmt.Sprintf("status %d", int(e)) }
func (e httpError) HTTPStatus() int { return int(e) }

func TestClassify_ByTheDependencysAnswer(t *testing.T) {
	t.Parallel()
	const success, failure, ignored = breaker.Success, breaker.Failure, breaker.Ignored
	for status, want := range map[int]breaker.Outcome{
		// The dependency answered.
		200: success, 304: success, 400: success, 401: success, 403: success, 404: success, 409: success, 410: success, 422: success, 499: success,
		// The dependency asked for fewer calls.
		429: ignored,
		// The dependency failed.
		408: failure, 500: failure, 501: failure, 502: failure, 503: failure, 504: failure, 529: failure, 599: failure,
	} {
		err := httpError(status)
		for name, err := range map[string]error{
			"bare":                      err,
			"wrapped":                   fmt.Errorf("asking the carrier: %w", err),
			"joined":                    errors.Join(errors.New("closing the body"), err),
			"cause of a retryable":      temporal.NewApplicationErrorWithCause("", "Carrier", err),
			"cause of a non-retryable":  temporal.NewNonRetryableApplicationError("", "Carrier", err),
			"beside its own deadline":   errors.Join(err, context.DeadlineExceeded),
			"cause of an activity fail": temporal.NewApplicationErrorWithOptions("", "Carrier", temporal.ApplicationErrorOptions{Cause: fmt.Errorf("x: %w", err)}),
		} {
			assert.Equal(t, want, interceptor.Classify(t.Context(), nil, err), "%d %s", status, name)
		}
	}
}

func TestClassify_ByTheError(t *testing.T) {
	t.Parallel()
	exhausted := serviceerror.NewResourceExhausted(enums.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "slow down")
	for name, c := range map[string]struct {
		err  error
		want breaker.Outcome
	}{
		"none":                            {nil, breaker.Success},
		"unknown":                         {errors.New("?"), breaker.Failure},
		"rate-limited":                    {exhausted, breaker.Ignored},
		"rate-limited, wrapped":           {fmt.Errorf("asking: %w", exhausted), breaker.Ignored},
		"pending":                         {activity.ErrResultPending, breaker.Ignored},
		"pending, wrapped":                {fmt.Errorf("later: %w", activity.ErrResultPending), breaker.Ignored},
		"retryable application error":     {temporal.NewApplicationError("", "Busy"), breaker.Failure},
		"non-retryable application error": {temporal.NewNonRetryableApplicationError("", "UnknownParcel", nil), breaker.Success},
		"non-retryable, wrapped":          {fmt.Errorf("asking: %w", temporal.NewNonRetryableApplicationError("", "UnknownParcel", nil)), breaker.Success},
		"unreachable":                     {serviceerror.NewUnavailable("connection refused"), breaker.Failure},
		"the tool's own deadline":         {context.DeadlineExceeded, breaker.Failure},
		"a deadline of its client":        {fmt.Errorf("Get: %w", context.DeadlineExceeded), breaker.Failure},
		// The activity itself was not cancelled, so the tool has failed.
		"cancelled by the tool itself": {context.Canceled, breaker.Failure},
		"a CanceledError of the tool":  {temporal.NewCanceledError(), breaker.Failure},
	} {
		assert.Equal(t, c.want, interceptor.Classify(t.Context(), nil, c.err), name)
	}
}

// The kind of a cancellation is taken from the activity's context and its cause.
func TestClassify_ByTheActivitysContext(t *testing.T) {
	t.Parallel()
	cancelled := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		return ctx
	}
	expired, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	outlived, cancelOutlived := context.WithDeadline(cancelled(worker.ErrWorkerShutdown), time.Now().Add(-time.Second))
	defer cancelOutlived()
	for name, c := range map[string]struct {
		ctx  context.Context
		want breaker.Outcome
	}{
		"the workflow cancelled":        {cancelled(temporal.NewCanceledError()), breaker.Ignored},
		"an operator paused it":         {cancelled(activity.ErrActivityPaused), breaker.Ignored},
		"an operator reset it":          {cancelled(activity.ErrActivityReset), breaker.Ignored},
		"the worker shut down":          {cancelled(worker.ErrWorkerShutdown), breaker.Ignored},
		"the run has ended":             {cancelled(serviceerror.NewNotFound("workflow execution already completed")), breaker.Ignored},
		"heartbeats did not arrive":     {cancelled(serviceerror.NewDeadlineExceeded("")), breaker.Ignored},
		"without a cause":               {cancelled(nil), breaker.Ignored},
		"the attempt's deadline passed": {expired, breaker.Failure},
		"shut down before the deadline": {outlived, breaker.Ignored},
	} {
		for _, err := range []error{
			nil, c.ctx.Err(), errors.New("?"), httpError(503), httpError(404), httpError(429), temporal.NewCanceledError(),
			temporal.NewNonRetryableApplicationError("", "UnknownParcel", nil),
		} {
			assert.Equal(t, c.want, interceptor.Classify(c.ctx, nil, err), "%s, returning %v", name, err)
		}
		assert.Equal(t, breaker.Ignored, interceptor.Classify(c.ctx, nil, activity.ErrResultPending), name)
	}
}

func TestClassify_ByTheGRPCCode(t *testing.T) {
	t.Parallel()
	const success, failure, ignored = breaker.Success, breaker.Failure, breaker.Ignored
	for code, want := range map[codes.Code]breaker.Outcome{
		codes.InvalidArgument: success, codes.NotFound: success, codes.AlreadyExists: success, codes.PermissionDenied: success,
		codes.Unauthenticated: success, codes.FailedPrecondition: success, codes.OutOfRange: success, codes.Unimplemented: success,
		codes.Aborted: success, codes.ResourceExhausted: ignored, codes.Unavailable: failure, codes.DeadlineExceeded: failure,
		codes.Internal: failure, codes.DataLoss: failure, codes.Unknown: failure,
		// The activity itself was not cancelled.
		codes.Canceled: failure,
	} {
		err := grpcstatus.Error(code, "")
		assert.Equal(t, want, interceptor.Classify(t.Context(), nil, err), code)
		assert.Equal(t, want, interceptor.Classify(t.Context(), nil, fmt.Errorf("asking: %w", err)), "%v, wrapped", code)
		assert.Equal(t, want, interceptor.Classify(t.Context(), nil, serviceerror.FromStatus(grpcstatus.New(code, ""))), "%v, of Temporal's own", code)
	}
}

// A call that gets no answer is a failure of the dependency.
func TestClassify_ByTheNetwork(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"DNS":     &net.DNSError{Err: "no such host", Name: "api.carrier.example", IsNotFound: true},
		"refused": &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
		"reset":   &net.OpError{Op: "read", Err: syscall.ECONNRESET},
		"cut off": io.ErrUnexpectedEOF,
		"TLS":     &tls.CertificateVerificationError{Err: x509.HostnameError{}},
	} {
		assert.Equal(t, breaker.Failure, interceptor.Classify(t.Context(), nil, &url.Error{Op: "Get", Err: err}), name)
	}
}

func TestClassify_ByTheOutcomeOfAResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		result any
		want   breaker.Outcome
	}{
		{toolcall.Value("in transit"), breaker.Success},
		{toolcall.Result[string]{Unavailable: &toolcall.Unavailable{}}, breaker.Ignored},
		{toolcall.Result[string]{Limit: &toolcall.RateLimit{}}, breaker.Ignored},
		{&toolcall.Result[string]{Error: &toolcall.ToolError{}}, breaker.Failure},
		{map[string]int{"status": 503}, breaker.Success},
	} {
		assert.Equal(t, c.want, interceptor.Classify(t.Context(), c.result, nil), "%+v", c.result)
	}
}

type answer struct{ Status int }

func TestClassifiers_OfTheUser(t *testing.T) {
	t.Parallel()
	byType := interceptor.ByErrorType(map[string]breaker.Outcome{"OutOfStock": breaker.Success, "Maintenance": breaker.Failure})
	byStatus := interceptor.ByResult(func(a answer) (breaker.Outcome, bool) { return breaker.Failure, a.Status >= 500 })
	for name, c := range map[string]struct {
		classify interceptor.Classifier
		result   any
		err      error
		want     breaker.Outcome
		ok       bool
	}{
		"type known":                {byType, nil, temporal.NewApplicationError("", "OutOfStock"), breaker.Success, true},
		"type known, wrapped":       {byType, nil, fmt.Errorf("x: %w", temporal.NewApplicationError("", "Maintenance")), breaker.Failure, true},
		"type unknown":              {byType, nil, temporal.NewApplicationError("", "Other"), 0, false},
		"no application error":      {byType, nil, errors.New("?"), 0, false},
		"no error":                  {byType, answer{503}, nil, 0, false},
		"a failure in a result":     {byStatus, answer{503}, nil, breaker.Failure, true},
		"a good result":             {byStatus, answer{200}, nil, breaker.Failure, false},
		"of another type":           {byStatus, "503", nil, 0, false},
		"none":                      {byStatus, nil, nil, 0, false},
		"beside an error":           {byStatus, answer{503}, errors.New("?"), 0, false},
		"the first with a decision": {interceptor.FirstOf(byType, byStatus), answer{503}, nil, breaker.Failure, true},
		"no decision":               {interceptor.FirstOf(byType, byStatus), answer{200}, nil, 0, false},
	} {
		outcome, ok := c.classify(c.result, c.err)
		assert.Equal(t, c.ok, ok, name)
		if c.ok {
			assert.Equal(t, c.want, outcome, name)
		}
	}
}
