package interceptor

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// pending holds the calls that may be completed asynchronously, by task token and by ID.
// A call is added before its tool runs, because it can be completed before the tool
// returns activity.ErrResultPending. The zero pending is empty.
type pending struct {
	mu    sync.Mutex
	calls map[string]*call
}

// add keeps a call until it has ended.
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

// await keeps a call whose activity has returned activity.ErrResultPending. The call fails
// if it is not completed by the attempt's deadline.
func (p *pending) await(c *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The SDK cancels the context when the activity returns.
	c.stopWatching()
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

// CompleteActivity completes an activity that returned activity.ErrResultPending, like the
// method of client.Client, and gives the outcome to the breaker.
//
// Call it in the process in which the activity ran. If the activity is completed in
// another process, the call counts as in flight until its deadline and then as a failure.
// Until it is completed, the call can count as slow: give a slow tool a threshold of its
// own in breaker.Config.ToolLatency. An unguarded activity is completed too.
func (p *Plugin) CompleteActivity(ctx context.Context, taskToken []byte, result any, err error) error {
	p.completed(string(taskToken), result, err)
	return p.client.CompleteActivity(ctx, taskToken, result, err)
}

// CompleteActivityByID is [Plugin.CompleteActivity] by ID instead of by task token.
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
