package e2e_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	sdkinterceptor "go.temporal.io/sdk/interceptor"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// With OpenTelemetry's interceptor on the client, which comes before ours, a tool
// runs within its call's span, and a refused call has a span as any other has.
func testEndingsTracing(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	tracing, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{Tracer: provider.Tracer("endings")})
	require.NoError(t, err)
	b := newBench(t, client.Options{Interceptors: []sdkinterceptor.ClientInterceptor{tracing}})
	var mu sync.Mutex
	within := map[trace.SpanID]bool{}
	b.tool("traced", opened(3), func(ctx context.Context, fail bool) (string, error) {
		mu.Lock()
		within[trace.SpanContextFromContext(ctx).SpanID()] = true
		mu.Unlock()
		return obliging(ctx, fail)
	})
	b.open()

	assert.Equal(t, toolcall.OK, b.call(t, plan{Tool: "traced"}).outcome())
	b.expect(t, "traced", answered)
	for range 2 {
		assert.Equal(t, toolcall.Failed, b.call(t, plan{Tool: "traced", Fail: true}).outcome())
	}
	require.Equal(t, breaker.Open, b.breaker("traced").State)
	assertRefused(t, "traced", b.call(t, plan{Tool: "traced"}))
	assert.Equal(t, 3, b.calls("traced"))

	var ran []sdktrace.ReadOnlySpan
	for _, span := range recorder.Ended() {
		if span.Name() == "RunActivity:traced" {
			ran = append(ran, span)
		}
	}
	require.Len(t, ran, 4)
	for i, span := range ran {
		assert.Equal(t, i < 3, within[span.SpanContext().SpanID()], "the tool of call %d ran within its span", i)
	}
	assert.Equal(t, codes.Unset, ran[0].Status().Code)
	assert.Equal(t, codes.Error, ran[1].Status().Code)
	assert.Equal(t, codes.Unset, ran[3].Status().Code, "a refusal is no failure of the call")
}
