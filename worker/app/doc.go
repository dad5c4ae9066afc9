// Package app starts the whole example: a Temporal server (the one that the
// environment configures, or an embedded one), the carrier simulator, and workers
// that run the support agent and its tools, with or without the breaker.
package app
