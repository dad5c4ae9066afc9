package interceptor

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// pending holds the calls that may be completed elsewhere, by task token and by
// ID: from the start, because whoever was handed the token may be faster than the
// tool is to return activity.ErrResultPending. The zero pending is empty.
type pending struct {
	mu    sync.Mutex
	calls map[string]*call
}

// add knows a call until it has ended.
func (p *pending) add(c *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.info.IsLocalActivity {
		return
	}
	token, id := string(c.info.TaskToken), pendingID(c.info.WorkflowExecution.ID, c.info.ActivityID)
	c.ending = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, key := range []string{token, id} {
			if p.calls[key] == c {
				delete(p.calls, key)
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = map[string]*call{}
	}
	p.calls[token], p.calls[id] = c, c
}

// await keeps a call whose activity has returned activity.ErrResultPending until it
// is completed, or until its attempt's deadline if nobody completes it.
func (p *pending) await(c *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The SDK ends the context when the activity returns.
	c.unwatch()
	if !c.ended {
		c.deadline = time.AfterFunc(time.Until(c.info.Deadline), func() { c.end(breaker.Failure) })
	}
}

func (p *pending) find(key string) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[key]
}

func pendingID(workflowID, activityID string) string { return workflowID + "/" + activityID }

// CompleteActivity is client.Client's CompleteActivity for a tool that returned
// activity.ErrResultPending, and tells its breaker how the call ended. Use it in
// the process in which the activity ran: any other knows nothing of the call, and
// there it ends as a failure at its deadline. A call counts as one in flight until
// it is completed, so give a tool that takes long a threshold of its own
// (breaker.Config.ToolLatency). An activity that is not guarded is completed as
// well.
func (p *Plugin) CompleteActivity(ctx context.Context, taskToken []byte, result any, err error) error {
	p.completed(string(taskToken), result, err)
	return p.client.CompleteActivity(ctx, taskToken, result, err)
}

// CompleteActivityByID is [Plugin.CompleteActivity] for who has no task token.
func (p *Plugin) CompleteActivityByID(ctx context.Context, namespace, workflowID, runID, activityID string, result any, err error) error {
	p.completed(pendingID(workflowID, activityID), result, err)
	return p.client.CompleteActivityByID(ctx, namespace, workflowID, runID, activityID, result, err)
}

func (p *Plugin) completed(key string, result any, err error) {
	c := p.pending.find(key)
	if c == nil {
		return
	}
	outcome := breaker.Ignored
	if !temporal.IsCanceledError(err) {
		outcome = c.dependency.classify(context.Background(), result, err)
	}
	c.end(outcome)
}
