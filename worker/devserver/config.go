//go:build !noserver

package devserver

import (
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
)

const clusterName = "active"

// staticConfig has no metrics and no pprof section: without one the server
// opens no listener for it.
func staticConfig(p ports, db *config.SQL) *config.Config {
	frontend := address(p.frontend)
	off := config.HistoryArchival{State: config.ArchivalDisabled}
	return &config.Config{
		Persistence: config.Persistence{
			DefaultStore:     sqliteplugin.PluginName,
			VisibilityStore:  sqliteplugin.PluginName,
			NumHistoryShards: 1,
			DataStores:       map[string]config.DataStore{sqliteplugin.PluginName: {SQL: db}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{
				clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
			},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services: map[string]config.Service{
			string(primitives.FrontendService): service(p.frontend),
			string(primitives.HistoryService):  service(p.history),
			string(primitives.MatchingService): service(p.matching),
			string(primitives.WorkerService):   service(p.worker),
		},
		PublicClient: config.PublicClient{HostPort: frontend},
		Archival: config.Archival{
			History:    off,
			Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
	}
}

func service(port int) config.Service {
	return config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: loopback}}
}

// hosts name every service's only address. Services that know their hosts need
// no membership protocol, so none of its listeners are opened.
func hosts(p ports) map[primitives.ServiceName]static.Hosts {
	return map[primitives.ServiceName]static.Hosts{
		primitives.FrontendService: static.SingleLocalHost(address(p.frontend)),
		primitives.HistoryService:  static.SingleLocalHost(address(p.history)),
		primitives.MatchingService: static.SingleLocalHost(address(p.matching)),
		primitives.WorkerService:   static.SingleLocalHost(address(p.worker)),
	}
}

// plenty is a rate that one process with one database never reaches.
const plenty = 1_000_000

// longPoll is how long the server lets a caller wait for a workflow's result or
// update before the caller has to ask again. Callers do so by themselves.
//
// The server drops the news of a closed workflow when the one before has not
// been fetched yet, which a busy machine with few cores does to one caller in
// thirty. The caller learns of it when it asks again: after the server's
// default of 20 seconds, were it not for this.
const longPoll = time.Second

// dynamicConfig changes only what a server on a developer's machine needs.
// Limits that a workflow's design has to live with (history size, updates in
// flight, callers waiting at once) stay as they are in production.
func dynamicConfig(o Options) dynamicconfig.StaticClient {
	c := dynamicconfig.StaticClient{
		// Updates and eager starts are on by default today; a development
		// server depends on them too much to leave that to a release.
		dynamicconfig.FrontendEnableUpdateWorkflowExecution.Key():              true,
		dynamicconfig.FrontendEnableUpdateWorkflowExecutionAsyncAccepted.Key(): true,
		dynamicconfig.EnableEagerWorkflowStart.Key():                           true,
		dynamicconfig.EnableActivityEagerExecution.Key():                       true,

		// The production rates protect a shared cluster. Here they would only
		// throttle a demonstration or a load test.
		dynamicconfig.FrontendRPS.Key():                                                        plenty,
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key():                                 plenty,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key():                       plenty,
		dynamicconfig.FrontendNamespaceReplicationInducingAPIsRPS.Key():                        plenty,
		dynamicconfig.FrontendMaxNamespaceNamespaceReplicationInducingAPIsRPSPerInstance.Key(): plenty,
		dynamicconfig.FrontendGlobalNamespaceNamespaceReplicationInducingAPIsRPS.Key():         plenty,
		dynamicconfig.FrontendPersistenceMaxQPS.Key():                                          plenty,
		dynamicconfig.MatchingRPS.Key():                                                        plenty,
		dynamicconfig.MatchingPersistenceMaxQPS.Key():                                          plenty,
		dynamicconfig.HistoryRPS.Key():                                                         plenty,
		dynamicconfig.HistoryPersistenceMaxQPS.Key():                                           plenty,
		dynamicconfig.WorkerPersistenceMaxQPS.Key():                                            plenty,

		// One matching host has nobody to spread a task queue over: more
		// partitions would only forward tasks to itself.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,

		dynamicconfig.HistoryLongPollExpirationInterval.Key(): longPoll,

		// A search attribute added while the server runs is usable at once.
		dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key(): true,

		// The server asks its vendor for newer versions otherwise.
		dynamicconfig.EnableServerVersionCheck.Key(): false,

		// Sweepers for clusters that live for months; each is a workflow that
		// polls.
		dynamicconfig.TaskQueueScannerEnabled.Key(): false,
		dynamicconfig.HistoryScannerEnabled.Key():   false,

		// Children of a closed workflow are handled on the spot instead of by
		// a system worker. The server never stops that worker, and it would
		// poll whatever server gets the port next.
		dynamicconfig.EnableParentClosePolicyWorker.Key(): false,
	}
	if o.TimerResolution > 0 {
		c[dynamicconfig.TimerProcessorMaxTimeShift.Key()] = o.TimerResolution
	}
	for name, value := range o.DynamicConfig {
		c[dynamicconfig.MakeKey(name)] = value
	}
	return c
}
