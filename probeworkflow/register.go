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
)

const (
	// PublishActivity is the activity by which an outage tells the board.
	PublishActivity = "BreakerPublish"
	// AskActivity is the activity by which a suspicion asks the fleet.
	AskActivity = "BreakerAsk"
	// SearchAttributesActivity tells whether the namespace has the search
	// attributes of outages.
	SearchAttributesActivity = "BreakerSearchAttributes"
)

// Register puts the board, outage and probe workflows, and the activities they
// need, on a control worker.
//
// settings gives what an outage of a key is run by; an error where this process
// does not know the dependency.
func Register(r worker.Registry, c client.Client, taskQueue string, settings func(breaker.Key) (Settings, error)) {
	name := func(s string) workflow.RegisterOptions {
		return workflow.RegisterOptions{Name: s, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade}
	}
	r.RegisterWorkflowWithOptions(fleet.Board, name(fleet.BoardWorkflow))
	r.RegisterWorkflowWithOptions(Outage, name(OutageWorkflow))
	r.RegisterWorkflowWithOptions(Probe, name(ProbeWorkflow))
	a := activities{client: c, taskQueue: taskQueue, settings: settings}
	r.RegisterActivityWithOptions(a.publish, activity.RegisterOptions{Name: PublishActivity})
	r.RegisterActivityWithOptions(a.ask, activity.RegisterOptions{Name: AskActivity})
	r.RegisterActivityWithOptions(a.suspect, activity.RegisterOptions{Name: fleet.SuspectActivity})
	r.RegisterActivityWithOptions(a.searchAttributes, activity.RegisterOptions{Name: SearchAttributesActivity})
}

type activities struct {
	client    client.Client
	taskQueue string
	settings  func(breaker.Key) (Settings, error)
}

// StartOutage are the start options of the outage of a key.
func StartOutage(key breaker.Key, taskQueue string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{
		ID: OutageID(key), TaskQueue: taskQueue,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "Outage of " + key.String(),
	}
}

// suspect starts the outage of a key that nobody has a report of yet.
func (a activities) suspect(ctx context.Context, key breaker.Key) error {
	settings, err := a.settings(key)
	if err != nil {
		return err
	}
	_, err = a.client.ExecuteWorkflow(ctx, StartOutage(key, a.taskQueue), OutageWorkflow, OutageInput{Settings: settings})
	return err
}

// AskInput is a question, and how it is to be put.
type AskInput struct {
	Question fleet.Question `json:"question"`
	// OneIn is of how many workers one is asked. 0: as fits the fleet's size.
	OneIn int `json:"one_in,omitempty"`
	// Heard is how many workers have spoken by themselves.
	Heard int `json:"heard"`
}

// ask counts the fleet and puts the question to it, unless everyone has spoken.
// It gives the question as it was put.
func (a activities) ask(ctx context.Context, in AskInput) (fleet.Question, error) {
	q := in.Question
	var err error
	if q.Workers, err = a.workers(ctx); err != nil {
		activity.GetLogger(ctx).Warn("The fleet cannot be counted; everyone is asked.", "error", err)
	}
	if q.OneIn = in.OneIn; q.OneIn == 0 {
		q.OneIn = fleet.OneIn(q.Workers)
		if q.Workers > 0 && q.Workers <= in.Heard {
			return q, nil
		}
	}
	_, err = a.client.SignalWithStartWorkflow(ctx, fleet.BoardID, fleet.AskSignal, q,
		fleet.BoardOptions(a.taskQueue), fleet.BoardWorkflow, fleet.BoardInput{})
	return q, err
}

// seenWithin is how recently a worker that is alive has polled: a long poll
// takes a minute.
const seenWithin = 75 * time.Second

// workers counts the control workers that poll, one a process.
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
		fleet.BoardOptions(a.taskQueue), fleet.BoardWorkflow, fleet.BoardInput{})
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
