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

// The tracing interceptor of the client comes before the plugin's. So a tool runs within
// the span of its call, and a refused call has a span.
func testTracing(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	tracing, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{Tracer: provider.Tracer("call-endings")})
	require.NoError(t, err)
	h := newHarness(t, client.Options{Interceptors: []sdkinterceptor.ClientInterceptor{tracing}})
	var mu sync.Mutex
	spans := map[trace.SpanID]bool{}
	h.addTool("traced", tripsAfter(3), func(ctx context.Context, fail bool) (string, error) {
		mu.Lock()
		spans[trace.SpanContextFromContext(ctx).SpanID()] = true
		mu.Unlock()
		return failOnRequest(ctx, fail)
	})
	h.start()

	assert.Equal(t, toolcall.OK, h.call(t, callSpec{Tool: "traced"}).outcome())
	h.awaitSamples(t, "traced", answered)
	for range 2 {
		assert.Equal(t, toolcall.Failed, h.call(t, callSpec{Tool: "traced", Fail: true}).outcome())
	}
	require.Equal(t, breaker.Open, h.snapshot("traced").State)
	assertRefused(t, "traced", h.call(t, callSpec{Tool: "traced"}))
	assert.Equal(t, 3, h.executions("traced"))

	var ran []sdktrace.ReadOnlySpan
	for _, span := range recorder.Ended() {
		if span.Name() == "RunActivity:traced" {
			ran = append(ran, span)
		}
	}
	require.Len(t, ran, 4)
	for i, span := range ran {
		assert.Equal(t, i < 3, spans[span.SpanContext().SpanID()], "whether the tool ran within the span of call %d", i)
	}
	assert.Equal(t, codes.Unset, ran[0].Status().Code)
	assert.Equal(t, codes.Error, ran[1].Status().Code)
	assert.Equal(t, codes.Unset, ran[3].Status().Code, "a refused call is no error of its span")
}
