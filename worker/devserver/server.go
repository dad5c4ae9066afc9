//go:build !noserver

package devserver

import (
	"context"
	"fmt"
	"sync"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// Included tells that this build contains the embedded server.
const Included = true

// Server is a running Temporal server with, unless left out, its web UI. Its
// methods may be called concurrently.
type Server struct {
	options  Options
	database *database
	temporal *instance
	frontend string // host:port
	ui       *webUI // nil without UI
	stop     sync.Once
}

// Start starts a server and returns once workflows can be started and executed
// in its namespace and its search attributes can be used. ctx bounds the start
// only: end the server with [Server.Stop]. A server that does not become ready
// is an error after 30 seconds, or when ctx is done before.
//
// An error says which option, port or file is in the way and what to do, and
// leaves nothing running.
func Start(ctx context.Context, o Options) (*Server, error) {
	o = o.withDefaults()
	s, err := start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("embedded Temporal server: %w", err)
	}
	return s, nil
}

func start(ctx context.Context, o Options) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	db, err := openDatabase(o.DBFile)
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, database: db}
	if err := s.start(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	o := s.options
	if err := s.database.ensureNamespace(ctx, o.Namespace, o.SearchAttributes); err != nil {
		return fmt.Errorf("namespace %s: %w", o.Namespace, err)
	}
	temporal, p, err := startTemporal(o, s.database.config)
	if err != nil {
		return err
	}
	s.temporal, s.frontend = temporal, address(p.frontend)
	if p.ui != nil {
		if s.ui, err = startUI(p.ui, s.frontend, o); err != nil {
			return err
		}
	}
	if err := awaitReady(ctx, s.frontend, o); err != nil {
		return err
	}
	temporal.log.quiet.Store(false)
	return nil
}

// HostPort is the address for Temporal clients, such as "127.0.0.1:7233".
func (s *Server) HostPort() string { return s.frontend }

// UIURL is the address for browsers, such as "http://127.0.0.1:8233". Empty
// without UI.
func (s *Server) UIURL() string {
	if s.ui == nil {
		return ""
	}
	return s.ui.url
}

// Namespace is the namespace that the server was started with.
func (s *Server) Namespace() string { return s.options.Namespace }

// Client dials the server. It sets the address, and the namespace and logger
// where o has none. The caller closes the client, best before Stop.
func (s *Server) Client(o client.Options) (client.Client, error) {
	o.HostPort = s.frontend
	if o.Namespace == "" {
		o.Namespace = s.options.Namespace
	}
	if o.Logger == nil {
		o.Logger = sdklog.NewStructuredLogger(s.options.Logger)
	}
	return client.Dial(o)
}

// Stop ends the server and its UI and returns when their ports are free again.
// It may be called again, and returns then when the first call has. Clients
// and workers that are still connected are cut off after a second.
func (s *Server) Stop() {
	s.stop.Do(func() {
		if s.ui != nil {
			s.ui.stop()
		}
		if s.temporal != nil {
			s.temporal.stop()
		}
		if err := s.database.release(); err != nil {
			s.options.Logger.Warn("the embedded Temporal server's database was not released", "error", err)
		}
	})
}
