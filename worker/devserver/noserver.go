//go:build noserver

package devserver

import (
	"context"
	"errors"

	"go.temporal.io/sdk/client"
)

// Included tells that this build contains the embedded server.
const Included = false

// Server is never running in this build.
type Server struct{}

// Start returns an error: this build contains no server.
func Start(context.Context, Options) (*Server, error) {
	return nil, errNotIncluded
}

var errNotIncluded = errors.New("no Temporal server is configured, and this build contains none (-tags noserver): set TEMPORAL_ADDRESS to a running server, such as 127.0.0.1:7233")

// HostPort returns an empty address.
func (*Server) HostPort() string { return "" }

// UIURL returns an empty address.
func (*Server) UIURL() string { return "" }

// Namespace returns an empty name.
func (*Server) Namespace() string { return "" }

// Client returns the error that Start returns.
func (*Server) Client(client.Options) (client.Client, error) { return nil, errNotIncluded }

// Stop does nothing.
func (*Server) Stop() {}
