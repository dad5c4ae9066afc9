package breaker

import "context"

type probeKey struct{}

// WithProbe marks ctx as that of a probe. The interceptor uses it for the activities
// of a probe workflow.
func WithProbe(ctx context.Context) context.Context {
	return context.WithValue(ctx, probeKey{}, true)
}

// IsProbe reports whether the call is a probe. A tool can then tell its dependency,
// by a header or a test account, that the call is synthetic.
func IsProbe(ctx context.Context) bool {
	v, _ := ctx.Value(probeKey{}).(bool)
	return v
}
