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

// staticConfig has no metrics and no pprof section, so the server opens no listener
// for them.
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

// hosts returns the only address of each service. With static hosts the server needs
// no membership protocol and opens no listeners for it.
func hosts(p ports) map[primitives.ServiceName]static.Hosts {
	return map[primitives.ServiceName]static.Hosts{
		primitives.FrontendService: static.SingleLocalHost(address(p.frontend)),
		primitives.HistoryService:  static.SingleLocalHost(address(p.history)),
		primitives.MatchingService: static.SingleLocalHost(address(p.matching)),
		primitives.WorkerService:   static.SingleLocalHost(address(p.worker)),
	}
}

// unlimited is a rate that one process with one database never reaches.
const unlimited = 1_000_000

// longPoll bounds a caller's wait for a workflow's result or update. The SDK then asks
// again.
//
// On a busy machine the server loses about one in thirty notifications of a closed
// workflow. The caller then gets the result at its next poll, which would be after 20
// seconds with the server's default.
const longPoll = time.Second

// dynamicConfig sets what a server on a developer's machine needs. Limits that affect
// a workflow's design (history size, updates in flight, waiting callers) keep their
// production values.
func dynamicConfig(o Options) dynamicconfig.StaticClient {
	c := dynamicconfig.StaticClient{
		// On by default today. Set here so that a new release cannot change it.
		dynamicconfig.FrontendEnableUpdateWorkflowExecution.Key():              true,
		dynamicconfig.FrontendEnableUpdateWorkflowExecutionAsyncAccepted.Key(): true,
		dynamicconfig.EnableEagerWorkflowStart.Key():                           true,
		dynamicconfig.EnableActivityEagerExecution.Key():                       true,

		// The production rates would throttle a demonstration or a load test.
		dynamicconfig.FrontendRPS.Key():                                                        unlimited,
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key():                                 unlimited,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key():                       unlimited,
		dynamicconfig.FrontendNamespaceReplicationInducingAPIsRPS.Key():                        unlimited,
		dynamicconfig.FrontendMaxNamespaceNamespaceReplicationInducingAPIsRPSPerInstance.Key(): unlimited,
		dynamicconfig.FrontendGlobalNamespaceNamespaceReplicationInducingAPIsRPS.Key():         unlimited,
		dynamicconfig.FrontendPersistenceMaxQPS.Key():                                          unlimited,
		dynamicconfig.MatchingRPS.Key():                                                        unlimited,
		dynamicconfig.MatchingPersistenceMaxQPS.Key():                                          unlimited,
		dynamicconfig.HistoryRPS.Key():                                                         unlimited,
		dynamicconfig.HistoryPersistenceMaxQPS.Key():                                           unlimited,
		dynamicconfig.WorkerPersistenceMaxQPS.Key():                                            unlimited,

		// With one matching host, more partitions would only forward tasks to itself.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,

		dynamicconfig.HistoryLongPollExpirationInterval.Key(): longPoll,

		// A search attribute added to a running server is usable at once.
		dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key(): true,

		// No requests to the vendor.
		dynamicconfig.EnableServerVersionCheck.Key(): false,

		// Cleanup workflows that only a long-lived cluster needs.
		dynamicconfig.TaskQueueScannerEnabled.Key(): false,
		dynamicconfig.HistoryScannerEnabled.Key():   false,

		// The server never stops this system worker, which would then poll the next
		// server on the same port. Without it, children are closed synchronously.
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
