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

// connections remembers the gRPC connections that the server's services open
// to each other. The server never closes them: left alone, they would go on
// trying to reach the old ports for as long as the process lives.
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

// NewFactory gives the server's own client factory, on connections that are
// remembered.
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
		rememberedRPC{rpcFactory, c}, monitor, metricsHandler, dc, testHooks, shards, logger, throttledLogger)
}

type rememberedRPC struct {
	common.RPCFactory
	in *connections
}

func (r rememberedRPC) CreateRemoteFrontendGRPCConnection(address string) *grpc.ClientConn {
	return r.in.add(r.RPCFactory.CreateRemoteFrontendGRPCConnection(address))
}

func (r rememberedRPC) CreateLocalFrontendGRPCConnection() *grpc.ClientConn {
	return r.in.add(r.RPCFactory.CreateLocalFrontendGRPCConnection())
}

func (r rememberedRPC) CreateHistoryGRPCConnection(address string) *grpc.ClientConn {
	return r.in.add(r.RPCFactory.CreateHistoryGRPCConnection(address))
}

func (r rememberedRPC) CreateMatchingGRPCConnection(address string) *grpc.ClientConn {
	return r.in.add(r.RPCFactory.CreateMatchingGRPCConnection(address))
}
