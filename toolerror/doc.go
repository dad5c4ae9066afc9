// Package toolerror turns an HTTP response into the error that a tool returns:
//
//	if err := toolerror.FromResponse(resp); err != nil {
//		return Status{}, err
//	}
//
// # Rules
//
//   - 2xx is no error.
//   - 5xx and 408 are failures: the breaker counts them, and Temporal retries them.
//   - Other 4xx are final: the dependency works and rejected the call. Temporal does
//     not retry them.
//   - 429 is retried, and the breaker does not count it.
//   - Retry-After sets the delay of the next attempt, at most one hour.
//   - The error has no text from the server, because errors become part of a
//     workflow's history and of a model's transcript.
//
// A tool may also return any other error. Package interceptor recognises timeouts,
// DNS errors, refused and broken connections, TLS errors and gRPC codes. It also
// recognises error types with a method HTTPStatus() int, and with
// RetryAfterHint() time.Duration.
package toolerror
