package probeworkflow

import (
	"context"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/fleet"
)

const (
	// PublishActivity is the activity by which an outage tells the board.
	PublishActivity = "BreakerPublish"
	// SearchAttributesActivity tells whether the namespace has the search
	// attributes of outages.
	SearchAttributesActivity = "BreakerSearchAttributes"
)

// Register puts the board, outage and probe workflows, and the activities they
// need, on a control worker.
func Register(r worker.Registry, c client.Client, taskQueue string) {
	name := func(s string) workflow.RegisterOptions {
		return workflow.RegisterOptions{Name: s, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade}
	}
	r.RegisterWorkflowWithOptions(fleet.Board, name(fleet.BoardWorkflow))
	r.RegisterWorkflowWithOptions(Outage, name(OutageWorkflow))
	r.RegisterWorkflowWithOptions(Probe, name(ProbeWorkflow))
	a := activities{client: c, taskQueue: taskQueue}
	r.RegisterActivityWithOptions(a.publish, activity.RegisterOptions{Name: PublishActivity})
	r.RegisterActivityWithOptions(a.searchAttributes, activity.RegisterOptions{Name: SearchAttributesActivity})
}

type activities struct {
	client    client.Client
	taskQueue string
}

func (a activities) publish(ctx context.Context, e fleet.Entry) error {
	_, err := a.client.SignalWithStartWorkflow(ctx, fleet.BoardID, fleet.VerdictSignal, e,
		fleet.BoardOptions(a.taskQueue), fleet.BoardWorkflow, fleet.Table{})
	return err
}

func (a activities) searchAttributes(ctx context.Context) (bool, error) {
	known, err := a.client.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{
		Namespace: activity.GetInfo(ctx).Namespace,
	})
	if err != nil {
		return false, err
	}
	for _, name := range []string{SearchDependency, SearchRegion, SearchState} {
		if known.GetCustomAttributes()[name] != enums.INDEXED_VALUE_TYPE_KEYWORD {
			return false, nil
		}
	}
	return true, nil
}
