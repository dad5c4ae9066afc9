package interceptor

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// pending holds the calls whose activities have returned
// activity.ErrResultPending, by task token and by ID. The zero pending is empty.
type pending struct {
	mu    sync.Mutex
	calls map[string]*call
}

// await keeps a call until it is completed, or until its attempt's deadline if
// nobody completes it.
func (p *pending) await(c *call) {
	// The SDK ends the context when the activity returns.
	c.unwatch()
	token, id := string(c.info.TaskToken), pendingID(c.info.WorkflowExecution.ID, c.info.ActivityID)
	p.mu.Lock()
	if p.calls == nil {
		p.calls = map[string]*call{}
	}
	p.calls[token], p.calls[id] = c, c
	p.mu.Unlock()

	timer := time.AfterFunc(time.Until(c.info.Deadline), func() { c.end(breaker.Failure) })
	ending := func() {
		timer.Stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, key := range []string{token, id} {
			if p.calls[key] == c {
				delete(p.calls, key)
			}
		}
	}
	c.mu.Lock()
	ended := c.ended
	c.ending = ending
	c.mu.Unlock()
	if ended {
		ending()
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
