//go:build !noserver

package devserver

import (
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Temporal's server ends the process when its port is taken. Two programs that start at
// the same time may both find 7233 free.
func TestPortLostDuringStartIsAnError(t *testing.T) {
	o := Options{NoUI: true, Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	db, err := openDatabase("")
	require.NoError(t, err)
	require.NoError(t, db.ensureNamespace(t.Context(), o.Namespace, nil))

	for _, lost := range []func(*ports) int{
		func(p *ports) int { return p.frontend },
		func(p *ports) int { return p.history },
	} {
		p, err := choosePorts(o)
		require.NoError(t, err)
		l, err := net.Listen("tcp", address(lost(&p)))
		require.NoError(t, err)

		i := &instance{log: newServerLogger(o.Logger), connections: newConnections()}
		assert.ErrorIs(t, i.start(staticConfig(p, db.config), p, o), errLostPort)
		i.stop()
		require.NoError(t, l.Close())
	}
}

func TestInvalidServerConfigIsAnError(t *testing.T) {
	o := Options{NoUI: true, Logger: slog.New(slog.DiscardHandler)}.withDefaults()
	db, err := openDatabase("")
	require.NoError(t, err)
	p, err := choosePorts(o)
	require.NoError(t, err)
	cfg := staticConfig(p, db.config)
	delete(cfg.ClusterMetadata.ClusterInformation, clusterName)

	i := &instance{log: newServerLogger(o.Logger), connections: newConnections()}
	assert.ErrorContains(t, i.start(cfg, p, o), "cluster metadata")
	i.stop()
}
