package breaker

import "context"

type probeKey struct{}

// WithProbe marks ctx as belonging to a synthetic call. The interceptor sets it
// on the activities of a probe workflow.
func WithProbe(ctx context.Context) context.Context {
	return context.WithValue(ctx, probeKey{}, true)
}

// IsProbe reports whether the call is synthetic, so that a tool can tell the
// dependency (a header, a test account) that no customer is behind it.
func IsProbe(ctx context.Context) bool {
	v, _ := ctx.Value(probeKey{}).(bool)
	return v
}
