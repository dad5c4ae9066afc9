package interceptor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// refusalOf returns the refusal of a call.
func refusalOf(t *testing.T, p *interceptor.Plugin, q query) toolcall.Unavailable {
	t.Helper()
	env, seen := newWorker(p, tool, failsWith(errors.New("reached")))
	_, err := env.ExecuteActivity(tool, q)
	require.Error(t, err)
	var u toolcall.Unavailable
	require.NoError(t, seen.err.(*temporal.ApplicationError).Details(&u))
	return u
}

func TestRefusal_CountsConsecutiveOnesOfTheRun(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	open(p)
	// All activities of a test environment have one run.
	for want := 1; want <= 3; want++ {
		u := refusalOf(t, p, query{})
		assert.Equal(t, want, u.Refusals)
		if want > 1 {
			assert.Contains(t, u.Message, "calling again cannot help")
		}
	}
	p.Apply(fleet.Table{Entries: []fleet.Entry{{Key: key, Verdict: breaker.Verdict{State: breaker.Closed, Epoch: 2}}}})
	env, _ := newWorker(p, tool, answers)
	_, err := env.ExecuteActivity(tool, query{})
	require.NoError(t, err)
	p.Apply(fleet.Table{Entries: []fleet.Entry{{Key: key, Verdict: breaker.Verdict{
		State: breaker.Open, Epoch: 3, Next: wall.Add(30 * time.Second),
	}}}})
	assert.Equal(t, 1, refusalOf(t, p, query{}).Refusals, "an answer resets the count")
}

func TestRefusal_NamesTheRegionsThatWork(t *testing.T) {
	t.Parallel()
	c := &clock{}
	p := newPlugin(t, byRegion(guarded(c)))
	env, _ := newWorker(p, tool, answers)
	for _, region := range []string{"us-east", "ap-south"} {
		_, err := env.ExecuteActivity(tool, query{Region: region})
		require.NoError(t, err)
	}
	open(p)
	u := refusalOf(t, p, query{Region: "eu-west"})
	assert.Equal(t, "input", u.RegionFrom)
	assert.Equal(t, []string{"ap-south", "us-east"}, u.Alternatives)
	assert.Contains(t, u.Message, "Regions that work: ap-south, us-east.")

	down := fleet.Entry{
		Key:     breaker.Key{Dependency: "carrier-api", Region: "us-east"},
		Verdict: breaker.Verdict{State: breaker.Open, Epoch: 2, Next: wall.Add(time.Minute)},
	}
	p.Apply(fleet.Table{Entries: []fleet.Entry{down}})
	c.add(2 * time.Second)
	assert.Equal(t, []string{"ap-south"}, refusalOf(t, p, query{Region: "eu-west"}).Alternatives)
}

// With one region per worker, the model cannot choose another.
func TestRefusal_NamesNoRegionIfTheCallCannotChooseOne(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, guarded(&clock{}))
	open(p)
	assert.Empty(t, refusalOf(t, p, query{}).Alternatives)
}

func TestRefusal_OfARequiredDependencyAsksToWaitOrStop(t *testing.T) {
	t.Parallel()
	config := guarded(&clock{})
	config.Dependencies[0].Required = true
	p := newPlugin(t, config)
	open(p)
	u := refusalOf(t, p, query{})
	assert.True(t, u.Required)
	assert.Contains(t, u.Message, "wait until then, or stop and escalate; do not answer without it")
	assert.NotContains(t, u.Message, "Proceed")
}

func TestRefusal_IsWordedAsConfigured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wording func(toolcall.Unavailable) string
		own     bool
	}{
		"own":      {func(u toolcall.Unavailable) string { return "Sag dem Kunden: " + u.Dependency + " ist gestört." }, true},
		"empty":    {func(toolcall.Unavailable) string { return "" }, false},
		"too long": {func(toolcall.Unavailable) string { return strings.Repeat("x", 500) }, false},
		"panics":   {func(toolcall.Unavailable) string { panic("nil map") }, false},
	} {
		config := guarded(&clock{})
		config.Dependencies[0].Wording = c.wording
		p := newPlugin(t, config)
		open(p)
		u := refusalOf(t, p, query{})
		assert.Equal(t, c.own, u.Worded, name)
		if c.own {
			assert.Equal(t, "Sag dem Kunden: carrier-api ist gestört.", u.Message)
		} else {
			assert.Contains(t, u.Message, "carrier-api (eu-west) is temporarily unavailable", name)
		}
	}
}

// An activity may call a tool of another dependency and pass on its refusal.
func TestRefusal_OfAnotherKeyIsNoSample(t *testing.T) {
	t.Parallel()
	refusal := temporal.NewNonRetryableApplicationError("down", toolcall.DependencyUnavailable, nil, unavailable)
	for name, f := range map[string]any{
		"as an error": failsWith(refusal),
		"as a value": func(context.Context, query) (toolcall.Result[status], error) {
			return toolcall.Result[status]{Unavailable: &unavailable}, nil
		},
	} {
		p := newPlugin(t, guarded(&clock{}))
		env, _ := newWorker(p, tool, f)
		_, _ = env.ExecuteActivity(tool, query{})
		assert.Zero(t, counted(t, p), name)
	}
}

// waiting is guarded with Wait.
func waiting(c *clock) interceptor.Config {
	config := guarded(c)
	config.Dependencies[0].WhenOpen = interceptor.Wait
	return config
}

func TestWait_RetriesAtTheRetryTime(t *testing.T) {
	t.Parallel()
	p := newPlugin(t, waiting(&clock{}))
	open(p) // for 30 s
	for name, f := range map[string]any{
		"plain": failsWith(errors.New("reached")),
		"typed": func(context.Context, query) (toolcall.Result[status], error) { panic("reached") },
	} {
		env, seen := newWorker(p, tool, f)
		_, err := env.ExecuteActivity(tool, query{})
		require.Error(t, err)
		app, ok := seen.err.(*temporal.ApplicationError)
		require.True(t, ok, name)
		assert.False(t, app.NonRetryable())
		assert.Equal(t, temporal.ApplicationErrorCategoryBenign, app.Category())
		assert.GreaterOrEqual(t, app.NextRetryDelay(), 30*time.Second)
		assert.Less(t, app.NextRetryDelay(), 33*time.Second, "a tenth of jitter")
		var u toolcall.Unavailable
		require.NoError(t, app.Details(&u), "the workflow can read the reason")
		assert.Equal(t, "carrier-api", u.Dependency)
	}
}

// A retryable error that the server does not retry tells a workflow less.
func TestWait_IsARefusalIfNoRetryIsPossible(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]workflow.ActivityOptions{
		"no attempt left":      {RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}},
		"listed as final":      {RetryPolicy: &temporal.RetryPolicy{NonRetryableErrorTypes: []string{toolcall.DependencyUnavailable}}},
		"no time left":         {ScheduleToCloseTimeout: 20 * time.Second},
		"too little time left": {ScheduleToCloseTimeout: 29 * time.Second},
	} {
		c := &clock{elapsed: time.Since(wall)}
		p := newPlugin(t, waiting(c))
		p.Apply(fleet.Table{Entries: []fleet.Entry{{Key: key, Verdict: breaker.Verdict{
			State: breaker.Open, Epoch: 1, Next: c.Now().Add(30 * time.Second),
		}}}})
		env := newWorkflowEnv()
		env.SetWorkerOptions(options(p, &seen{}))
		env.RegisterActivityWithOptions(failsWith(errors.New("reached")), activity.RegisterOptions{Name: tool})
		var outcome toolcall.Outcome
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			o.StartToCloseTimeout = time.Minute
			r, err := toolcall.Execute[status](workflow.WithActivityOptions(ctx, o), tool, query{})
			outcome = r.Outcome()
			return err
		})
		require.NoError(t, env.GetWorkflowError(), name)
		assert.Equal(t, toolcall.Refused, outcome, name)
		assert.Equal(t, int64(1), breakerOf(t, p, key).Refused, name)
	}
}

// Each wait uses an attempt. By the number of its attempts, the call after a wait would not be
// counted.
func TestWait_TheCallAfterItIsASample(t *testing.T) {
	t.Parallel()
	c := &clock{}
	p := newPlugin(t, waiting(c))
	open(p)
	env := newWorkflowEnv()
	env.SetWorkerOptions(options(p, &seen{}))
	env.RegisterActivityWithOptions(failsWith(httpError(503)), activity.RegisterOptions{Name: tool})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		workflow.Go(ctx, func(ctx workflow.Context) {
			_ = workflow.Sleep(ctx, 10*time.Minute)
			p.Apply(fleet.Table{Entries: []fleet.Entry{{Key: key, Verdict: breaker.Verdict{State: breaker.Closed, Epoch: 2}}}})
		})
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 60},
		})
		return workflow.ExecuteActivity(ctx, tool, query{}).Get(ctx, nil)
	})
	require.Error(t, env.GetWorkflowError())
	require.Greater(t, breakerOf(t, p, key).Refused, int64(3))
	assert.Equal(t, breaker.Counts{Samples: 3, Failures: 3}, counted(t, p))
}
