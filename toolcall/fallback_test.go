package toolcall_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

const backup = "ask_other_carrier"

var (
	delivered  = status{TrackingID: "PKG-1", State: "delivered"}
	notFound   = temporal.NewNonRetryableApplicationError("", "NotFound", nil)
	overloaded = temporal.NewNonRetryableApplicationError("", toolcall.DependencyRateLimited, nil)
)

// withBackup is newAgentEnv with the tool backup.
func withBackup(f, second any) *agentEnv {
	env := newAgentEnv(f)
	env.RegisterActivityWithOptions(second, activity.RegisterOptions{Name: backup})
	return env
}

func fail(err error) handler {
	return func(context.Context, query) (status, error) { return status{}, err }
}

// callOr calls the tool with this fallback, in a run that is not cancelled.
func callOr(ctx workflow.Context, f toolcall.Fallback[status]) toolcall.Result[status] {
	r, err := toolcall.Call[status]{Tool: tool, Args: []any{query{}}, Fallback: f}.Execute(ctx)
	if err != nil {
		panic(err)
	}
	return r
}

func TestFallback_AnotherToolAnswers(t *testing.T) {
	t.Parallel()
	env := withBackup(refuse(shared()), func(_ context.Context, q query) (status, error) {
		return status{TrackingID: q.ID, State: "delivered"}, nil
	})
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		r := callOr(ctx, toolcall.Instead[status](backup, inRegion("eu")))
		assert.Equal(t, toolcall.Result[status]{Value: delivered, StandIn: &toolcall.StandIn{
			For: tool, From: backup, Because: toolcall.Refused,
			Message: "get_delivery_status is not available now. This answer is from ask_other_carrier instead, and may be incomplete or out of date:",
		}}, r)
		assert.Equal(t, toolcall.Degraded, r.Outcome())
		assert.True(t, r.Answered())
	})
}

func TestFallback_ACachedValueHasItsTime(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuse(shared()))
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		at := now.Add(-2 * time.Hour)
		r := callOr(ctx, toolcall.Cached(delivered, at))
		assert.Equal(t, delivered, r.Value)
		assert.Equal(t, &toolcall.StandIn{
			For: tool, From: "cache", Because: toolcall.Refused, At: at,
			Message: "get_delivery_status is not available now. This answer is from cache of 2026-03-01 12:00 UTC instead, and may be incomplete or out of date:",
		}, r.StandIn)
	})
}

func TestFallback_AFunctionRunsInTheWorkflow(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuse(shared()))
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		r := callOr(ctx, toolcall.FallbackFunc("last week's report", func(ctx workflow.Context) (status, error) {
			return call(ctx, otherTool, query{}).Value, nil
		}))
		assert.Equal(t, inTransit, r.Value)
		assert.Equal(t, "last week's report", r.StandIn.From)
		assert.Contains(t, r.ForModel(), "This answer is from last week's report instead")
	})
}

// These are the outcomes for which another source may help.
func TestFallback_AnswersForEachUnavailableTool(t *testing.T) {
	t.Parallel()
	for because, c := range map[string]struct {
		f       handler
		run     toolcall.Run
		outcome toolcall.Outcome
	}{
		"refused":      {refuse(shared()), toolcall.Run{}, toolcall.Refused},
		"rate-limited": {fail(overloaded), toolcall.Run{}, toolcall.RateLimited},
		"too slow":     {hang, toolcall.Run{}, toolcall.Failed},
		"no time left": {answer, toolcall.Run{Deadline: time.Second}, toolcall.Failed},
	} {
		t.Run(because, func(t *testing.T) {
			t.Parallel()
			env := newAgentEnv(c.f)
			env.within(t, c.run, func(ctx workflow.Context) {
				sleep(ctx, time.Second)
				r := callOr(workflow.WithStartToCloseTimeout(ctx, 20*time.Millisecond), toolcall.Cached(delivered, now))
				assert.Equal(t, delivered, r.Value)
				require.NotNil(t, r.StandIn)
				assert.Equal(t, c.outcome, r.StandIn.Because)
			})
		})
	}
}

func hang(ctx context.Context, _ query) (status, error) {
	<-ctx.Done()
	return status{}, ctx.Err()
}

func TestFallback_AnswersForARememberedRefusal(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuse(shared()))
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		for range 3 {
			assert.Equal(t, toolcall.Degraded, callOr(ctx, toolcall.Cached(delivered, now)).Outcome())
		}
		assert.Equal(t, 4, call(ctx, tool, query{}).Unavailable.Refusals)
	})
	assert.Equal(t, map[string]int{tool: 1}, env.started)
}

// Another source does not help when the tool answered with an error, or when the
// call itself is wrong.
func TestFallback_IsNotUsedForAnAnswerOrAnError(t *testing.T) {
	t.Parallel()
	never := toolcall.FallbackFunc("never", func(workflow.Context) (status, error) { panic("the fallback was called") })
	for name, c := range map[string]struct {
		f    handler
		call toolcall.Call[status]
		want string
	}{
		"an answer":       {answer, toolcall.Call[status]{Tool: tool, Args: []any{query{}}}, ""},
		"an error":        {fail(notFound), toolcall.Call[status]{Tool: tool, Args: []any{query{}}}, "NotFound"},
		"bad arguments":   {answer, toolcall.Call[status]{Tool: tool, Args: []any{json.RawMessage(`{`)}}, toolcall.TypeInvalidArguments},
		"an unknown tool": {answer, toolcall.Call[status]{Tool: "get_status"}, toolcall.TypeUnknownTool},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newAgentEnv(c.f)
			env.within(t, toolcall.Run{Tools: []string{tool}}, func(ctx workflow.Context) {
				c.call.Fallback = never
				r, err := c.call.Execute(ctx)
				assert.NoError(t, err)
				if c.want == "" {
					assert.Equal(t, toolcall.Value(inTransit), r)
					return
				}
				require.NotNil(t, r.Error)
				assert.Equal(t, c.want, r.Error.Type)
			})
		})
	}
}

func TestFallback_WithoutAnAnswerKeepsTheRefusal(t *testing.T) {
	t.Parallel()
	other := refusal()
	other.Key.Dependency = "other-carrier"
	u := toolcall.NewUnavailable(toolcall.About{Tool: backup}, other, now)
	for name, c := range map[string]struct {
		second   handler
		fallback toolcall.Fallback[status]
	}{
		"none":                   {answer, toolcall.Fallback[status]{}},
		"the other tool refused": {refuse(&u), toolcall.Instead[status](backup, query{})},
		"the other tool failed":  {fail(notFound), toolcall.Instead[status](backup, query{})},
		"the function failed":    {answer, toolcall.FallbackFunc("", func(workflow.Context) (status, error) { return delivered, errors.New("empty") })},
		"the function got a cancellation": {answer, toolcall.FallbackFunc("", func(workflow.Context) (status, error) {
			return delivered, temporal.NewCanceledError()
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := withBackup(refuse(shared()), c.second)
			env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
				r := callOr(ctx, c.fallback)
				assert.Zero(t, r.Value)
				require.NotNil(t, r.Unavailable)
				assert.Equal(t, "carrier-api", r.Unavailable.Dependency)
			})
		})
	}
}

// The other tool has a breaker of its own, and the run remembers its refusals too.
func TestFallback_ARefusedFallbackIsRemembered(t *testing.T) {
	t.Parallel()
	other := refusal()
	other.Key.Dependency = "other-carrier"
	u := toolcall.NewUnavailable(toolcall.About{Tool: backup}, other, now)
	env := withBackup(refuse(shared()), refuse(&u))
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		for range 3 {
			callOr(ctx, toolcall.Instead[status](backup, query{}))
		}
	})
	assert.Equal(t, map[string]int{tool: 1, backup: 1}, env.started)
}

// Run.Tools limits what a model may call. It once applied to the workflow's own
// fallback too, which was then never called.
func TestFallback_NeedNotBeInRunTools(t *testing.T) {
	t.Parallel()
	env := withBackup(refuse(shared()), answer)
	env.within(t, toolcall.Run{Tools: []string{tool}}, func(ctx workflow.Context) {
		assert.Equal(t, toolcall.Degraded, callOr(ctx, toolcall.Instead[status](backup, query{})).Outcome())
		assert.Equal(t, toolcall.TypeUnknownTool, call(ctx, backup, query{}).Error.Type, "the model may not call it")
	})
}

func TestFallback_OfACancelledRunIsAnError(t *testing.T) {
	t.Parallel()
	for name, fallback := range map[string]toolcall.Fallback[status]{
		"function": toolcall.FallbackFunc("", func(ctx workflow.Context) (status, error) {
			return status{}, workflow.Sleep(ctx, time.Hour)
		}),
		"another tool": toolcall.Instead[status](backup, query{}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := withBackup(refuse(shared()), answer)
			env.OnActivity(backup, mock.Anything, mock.Anything).Return(delivered, nil).After(time.Hour)
			env.RegisterDelayedCallback(env.CancelWorkflow, time.Minute)
			env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
				_, err := toolcall.Call[status]{Tool: tool, Args: []any{query{}}, Fallback: fallback}.Execute(ctx)
				assert.True(t, temporal.IsCanceledError(err), "%v", err)
			})
		})
	}
}
