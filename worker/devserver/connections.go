//go:build !noserver

package devserver

import (
	"sync"

	serverclient "go.temporal.io/server/client"
	"go.temporal.io/server/common"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/testing/testhooks"
	"google.golang.org/grpc"
)

// connections records the gRPC connections between the server's services. The server
// never closes them, and they would reconnect to the old ports until the process ends.
type connections struct {
	mu   sync.Mutex
	open map[*grpc.ClientConn]struct{}
}

var _ serverclient.FactoryProvider = (*connections)(nil)

func newConnections() *connections {
	return &connections{open: map[*grpc.ClientConn]struct{}{}}
}

func (c *connections) add(conn *grpc.ClientConn) *grpc.ClientConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn] = struct{}{}
	return conn
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.Close()
	}
}

// NewFactory returns the server's own client factory with recorded connections.
func (c *connections) NewFactory(
	rpcFactory common.RPCFactory,
	monitor membership.Monitor,
	metricsHandler metrics.Handler,
	dc *dynamicconfig.Collection,
	testHooks testhooks.TestHooks,
	shards int32,
	logger log.Logger,
	throttledLogger log.Logger,
) serverclient.Factory {
	return serverclient.NewFactoryProvider().NewFactory(
		recordingRPC{rpcFactory, c}, monitor, metricsHandler, dc, testHooks, shards, logger, throttledLogger)
}

type recordingRPC struct {
	common.RPCFactory
	in *connections
}

func (r recordingRPC) CreateRemoteFrontendGRPCConnection(address string) *grpc.ClientConn {
	return r.in.add(r.RPCFactory.CreateRemoteFrontendGRPCConnection(address))
}

func (r recordingRPC) CreateLocalFrontendGRPCConnection() *grpc.ClientConn {
	return r.in.add(r.RPCFactory.CreateLocalFrontendGRPCConnection())
}

func (r recordingRPC) CreateHistoryGRPCConnection(address string) *grpc.ClientConn {
	return r.in.add(r.RPCFactory.CreateHistoryGRPCConnection(address))
}

func (r recordingRPC) CreateMatchingGRPCConnection(address string) *grpc.ClientConn {
	return r.in.add(r.RPCFactory.CreateMatchingGRPCConnection(address))
}
