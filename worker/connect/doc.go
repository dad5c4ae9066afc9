// Package connect connects to the Temporal service that the environment
// configures. It does not import the embedded server.
package connect
