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

// starting makes the servers of one process start one after another, so that
// they do not race for the same free ports.
var starting sync.Mutex

const startAttempts = 5

// startTemporal chooses ports and starts a server on them. Ports that were
// free when chosen may be gone by the time the server binds them; then others
// are chosen. The caller owns the UI's listener.
func startTemporal(o Options, db *config.SQL) (*instance, ports, error) {
	starting.Lock()
	defer starting.Unlock()
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

// start lets a goroutine of its own do the work, because the server's way to
// say that a port is taken is to end the goroutine: see serverLogger.
func (i *instance) start(cfg *config.Config, p ports, o Options) error {
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			// A server that loses its goroutine in the middle of building
			// itself may panic on the way out.
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
			i.server = server // with an error, it is not nil and yet none
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
			i.log.to.Warn("the embedded Temporal server did not stop cleanly", "error", err)
		}
	}
	i.connections.close()
}
