// Package client has a client for worker controllers, of which there are none.
package client

import (
	"context"

	deploymentpb "go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/serviceerror"
	"go.uber.org/fx"

	"go.temporal.io/auto-scaled-workers/wci/workflow/iface"
	"go.temporal.io/server/common/namespace"
)

// Module provides the client.
var Module = fx.Provide(func() Client { return Client{} })

// Client refuses to create worker controllers.
type Client struct{}

// The server returns InvalidArgument to the caller, and does not retry it.
var errNotSupported = serviceerror.NewInvalidArgument("the embedded server starts no workers: remove the compute configuration")

// DescribeWorkerControllerInstance returns NotFound, as for a version without a
// compute configuration.
func (Client) DescribeWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion) (*iface.Description, []byte, error) {
	return nil, nil, serviceerror.NewNotFound("the embedded server has no worker controllers")
}

func (Client) UpdateWorkerControllerInstance(_ context.Context, _ *namespace.Namespace, _ *deploymentpb.WorkerDeploymentVersion, _ []byte, _ string, _ map[string]iface.ScalingGroupSpecUpdate, _ []string) (*iface.Description, error) {
	return nil, errNotSupported
}

func (Client) ValidateWorkerControllerInstanceSpec(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, string, map[string]iface.ScalingGroupSpecUpdate, []string) error {
	return errNotSupported
}

// DeleteWorkerControllerInstance succeeds: there is nothing to delete.
func (Client) DeleteWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, string) error {
	return nil
}
