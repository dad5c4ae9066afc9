package probeworkflow

import (
	"context"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/fleet/member"
)

const (
	// publishActivity sends the board a verdict.
	publishActivity = "BreakerPublish"
	// pollActivity puts a poll of the fleet on the board.
	pollActivity = "BreakerPoll"
	// searchAttributesActivity returns whether the namespace has the search attributes
	// of outages.
	searchAttributesActivity = "BreakerSearchAttributes"
)

// Register registers the board, outage and probe workflows, and their activities,
// with a control worker.
//
// settings returns the settings of a key's outage, or an error if this process does
// not know the dependency.
func Register(r worker.Registry, c client.Client, taskQueue string, settings func(breaker.Key) (Settings, error)) {
	name := func(s string) workflow.RegisterOptions {
		return workflow.RegisterOptions{Name: s, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade}
	}
	r.RegisterWorkflowWithOptions(fleet.Board, name(fleet.BoardWorkflow))
	r.RegisterWorkflowWithOptions(Outage, name(OutageWorkflow))
	r.RegisterWorkflowWithOptions(Probe, name(ProbeWorkflow))
	a := activities{client: c, taskQueue: taskQueue, settings: settings}
	r.RegisterActivityWithOptions(a.publish, activity.RegisterOptions{Name: publishActivity})
	r.RegisterActivityWithOptions(a.poll, activity.RegisterOptions{Name: pollActivity})
	r.RegisterActivityWithOptions(a.suspect, activity.RegisterOptions{Name: fleet.SuspectActivity})
	r.RegisterActivityWithOptions(a.searchAttributes, activity.RegisterOptions{Name: searchAttributesActivity})
}

type activities struct {
	client    client.Client
	taskQueue string
	settings  func(breaker.Key) (Settings, error)
}

// StartOutage returns the start options of the outage of a key.
func StartOutage(key breaker.Key, taskQueue string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: OutageID(key), TaskQueue: taskQueue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "Outage of " + key.String(),
	}
}

// suspect starts the outage workflow of a key without a report.
func (a activities) suspect(ctx context.Context, key breaker.Key) error {
	settings, err := a.settings(key)
	if err != nil {
		return err
	}
	_, err = a.client.ExecuteWorkflow(ctx, StartOutage(key, a.taskQueue), OutageWorkflow, OutageInput{Settings: settings})
	return err
}

// pollInput is a poll and how to put it on the board.
type pollInput struct {
	Poll fleet.Poll `json:"poll"`
	// OneIn is that of [fleet.Poll]; 0: by the fleet's size.
	OneIn int `json:"one_in,omitempty"`
	// Reported is how many workers have reported unasked.
	Reported int `json:"reported"`
}

// poll counts the fleet and puts the poll on the board, unless all workers have
// reported. It returns the poll as it was put there.
func (a activities) poll(ctx context.Context, in pollInput) (fleet.Poll, error) {
	p := in.Poll
	var err error
	if p.Workers, err = a.workers(ctx); err != nil {
		activity.GetLogger(ctx).Warn("The workers of the fleet cannot be counted. All of them are polled.", "key", p.Key.String(), "error", err)
	}
	if p.OneIn = in.OneIn; p.OneIn == 0 {
		p.OneIn = fleet.OneIn(p.Workers)
		if p.Workers > 0 && p.Workers <= in.Reported {
			return p, nil
		}
	}
	_, err = a.client.SignalWithStartWorkflow(ctx, fleet.BoardID, fleet.PollSignal, p,
		member.BoardOptions(a.taskQueue), fleet.BoardWorkflow, fleet.BoardInput{})
	return p, err
}

// seenWithin is how recently a live worker has polled its task queue. A long poll
// takes up to a minute.
const seenWithin = 75 * time.Second

// workers counts the control workers. Each process has one.
func (a activities) workers(ctx context.Context) (int, error) {
	described, err := a.client.DescribeTaskQueue(ctx, a.taskQueue, enums.TASK_QUEUE_TYPE_ACTIVITY)
	if err != nil {
		return 0, err
	}
	seen := map[string]bool{}
	for _, p := range described.GetPollers() {
		if time.Since(p.GetLastAccessTime().AsTime()) < seenWithin {
			seen[p.GetIdentity()] = true
		}
	}
	return len(seen), nil
}

func (a activities) publish(ctx context.Context, e fleet.Entry) error {
	_, err := a.client.SignalWithStartWorkflow(ctx, fleet.BoardID, fleet.VerdictSignal, e,
		member.BoardOptions(a.taskQueue), fleet.BoardWorkflow, fleet.BoardInput{})
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
