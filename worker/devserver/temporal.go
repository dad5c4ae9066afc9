//go:build !noserver

package devserver

import (
	"errors"
	"fmt"
	"sync"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/temporal"
)

// instance is a running Temporal server, without its UI.
type instance struct {
	server      temporal.Server
	log         serverLogger
	connections *connections
}

// startMutex lets the servers of one process start one after another, so that they do
// not choose the same free ports.
var startMutex sync.Mutex

const startAttempts = 5

// startTemporal chooses ports and starts a server on them. If another process takes a
// port meanwhile, it chooses others. The caller owns the UI's listener.
func startTemporal(o Options, db *config.SQL) (*instance, ports, error) {
	startMutex.Lock()
	defer startMutex.Unlock()
	for attempt := 1; ; attempt++ {
		p, err := choosePorts(o)
		if err != nil {
			return nil, ports{}, err
		}
		i := &instance{log: newServerLogger(o.Logger), connections: newConnections()}
		err = i.start(staticConfig(p, db), p, o)
		if err == nil {
			return i, p, nil
		}
		i.stop()
		p.close()
		if !errors.Is(err, errLostPort) || attempt == startAttempts {
			return nil, ports{}, err
		}
	}
}

// start uses a separate goroutine, because the server calls Fatal when a port is
// taken, and Fatal ends the goroutine: see serverLogger.
func (i *instance) start(cfg *config.Config, p ports, o Options) error {
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			// The server may panic when Fatal has ended the goroutine.
			if p := recover(); p != nil && i.log.fatal.Load() == nil {
				panic(p)
			}
		}()
		var server temporal.Server
		server, err = temporal.NewServer(
			temporal.WithConfig(cfg),
			temporal.WithStaticHosts(hosts(p)),
			temporal.ForServices(temporal.DefaultServices),
			temporal.WithLogger(i.log),
			temporal.WithDynamicConfigClient(dynamicConfig(o)),
			temporal.WithClientFactoryProvider(i.connections),
			temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
			temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper {
				return authorization.NewNoopClaimMapper()
			}),
		)
		if err == nil {
			i.server = server // with an error, server is a non-nil interface without a server
			err = server.Start()
		}
	}()
	<-done
	switch fatal := i.log.fatal.Load(); {
	case fatal == nil:
		return err
	case fatal.isListenError():
		return fmt.Errorf("%w: %w", errLostPort, fatal)
	default:
		return fatal
	}
}

func (i *instance) stop() {
	i.log.quiet.Store(true)
	if i.server != nil {
		if err := i.server.Stop(); err != nil {
			i.log.to.Warn("embedded Temporal server: it did not stop cleanly", "error", err)
		}
	}
	i.connections.close()
}
