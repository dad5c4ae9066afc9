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

// Server is a running Temporal server with its web UI, unless that is disabled. Its
// methods may be called concurrently.
type Server struct {
	options  Options
	database *database
	temporal *instance
	frontend string // host:port
	ui       *webUI // nil without UI
	stop     sync.Once
}

// Start starts a server. It returns when workflows can run in the namespace and the
// search attributes can be used. It fails if that takes more than 30 seconds, or when
// ctx is done. ctx bounds the start only: stop the server with [Server.Stop].
//
// After an error nothing is left running.
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

// HostPort returns the address for Temporal clients, such as "127.0.0.1:7233".
func (s *Server) HostPort() string { return s.frontend }

// UIURL returns the address for browsers, such as "http://127.0.0.1:8233". It is
// empty without a UI.
func (s *Server) UIURL() string {
	if s.ui == nil {
		return ""
	}
	return s.ui.url
}

// Namespace returns the namespace that the server was started with.
func (s *Server) Namespace() string { return s.options.Namespace }

// Client connects to the server. It sets the address, and the namespace and the
// logger if o has none. The caller must close the client, before Stop.
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

// Stop stops the server and its UI and returns when their ports are free. It may be
// called again, and then waits for the first call. Clients that are still connected
// are disconnected after a second.
func (s *Server) Stop() {
	s.stop.Do(func() {
		if s.ui != nil {
			s.ui.stop()
		}
		if s.temporal != nil {
			s.temporal.stop()
		}
		if err := s.database.release(); err != nil {
			s.options.Logger.Warn("embedded Temporal server: the database was not released", "error", err)
		}
	})
}
