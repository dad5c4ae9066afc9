package toolcall_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/toolcall"
)

// sibling has the same dependency as tool, otherTool another one.
const (
	sibling   = "get_shipping_label"
	otherTool = "get_weather"
)

// query is the argument of the tools of these tests.
type query struct {
	ID     string `json:"id"`
	Region string `json:"region"`
}

func inRegion(region string) query { return query{ID: "PKG-1", Region: region} }

// handler implements a tool.
type handler func(context.Context, query) (status, error)

func answer(context.Context, query) (status, error) { return inTransit, nil }

func refuse(u *toolcall.Unavailable) handler {
	return func(context.Context, query) (status, error) { return status{}, refusedWith(*u) }
}

// refuseInRegion refuses like a dependency whose region comes from the arguments.
func refuseInRegion(ctx context.Context, q query) (status, error) {
	r := refusal()
	r.Key.Region = q.Region
	return status{}, refusedWith(toolcall.NewUnavailable(toolcall.About{
		Tool: activity.GetInfo(ctx).ActivityType.Name, Tools: []string{tool, sibling}, RegionFrom: toolcall.RegionFromInput,
	}, r, now))
}

func refusedWith(u toolcall.Unavailable) error {
	return temporal.NewNonRetryableApplicationError(u.Message, toolcall.DependencyUnavailable, nil, u)
}

// shared is a refusal by a dependency that tool and sibling need, until 14:00:30.
func shared() *toolcall.Unavailable {
	u := toolcall.NewUnavailable(toolcall.About{Tool: tool, Tools: []string{tool, sibling}}, refusal(), now)
	return &u
}

// agentEnv is an environment that begins at 14:00:00 and counts the activities it
// starts.
type agentEnv struct {
	*testsuite.TestWorkflowEnvironment
	started map[string]int
}

// newAgentEnv registers f as tool and sibling. otherTool always answers.
func newAgentEnv(f any) *agentEnv {
	env := &agentEnv{newEnv(f), map[string]int{}}
	env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: sibling})
	env.RegisterActivityWithOptions(answer, activity.RegisterOptions{Name: otherTool})
	env.SetStartTime(now)
	env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		env.started[info.ActivityType.Name]++
	})
	return env
}

// within calls f in a workflow with WithRun.
func (env *agentEnv) within(t *testing.T, run toolcall.Run, f func(ctx workflow.Context)) {
	t.Helper()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		f(toolcall.WithRun(once(ctx), run))
		return nil
	})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
}

// call is Execute in a run that is not cancelled.
func call(ctx workflow.Context, tool string, args ...any) toolcall.Result[status] {
	r, err := toolcall.Execute[status](ctx, tool, args...)
	if err != nil {
		panic(err)
	}
	return r
}

func sleep(ctx workflow.Context, d time.Duration) {
	if err := workflow.Sleep(ctx, d); err != nil {
		panic(err)
	}
}

func TestRun_AnswersFromMemoryUntilTheRetryTime(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]any{
		"refused as an error": refuse(shared()),
		"refused as a value": func(context.Context, query) (toolcall.Result[json.RawMessage], error) {
			return toolcall.Result[json.RawMessage]{Unavailable: shared()}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newAgentEnv(f)
			var first, second, other toolcall.Result[status]
			env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
				first, second, other = call(ctx, tool, query{}), call(ctx, tool, query{}), call(ctx, sibling, query{})
			})
			assert.Equal(t, map[string]int{tool: 1}, env.started)
			for i, r := range []toolcall.Result[status]{first, second, other} {
				require.Equal(t, toolcall.Refused, r.Outcome())
				assert.Equal(t, i+1, r.Unavailable.Refusals)
				assert.Equal(t, now.Add(30*time.Second), r.Unavailable.RetryAt)
			}
			assert.NotContains(t, first.ForModel(), "refusal")
			assert.Contains(t, second.ForModel(), "get_delivery_status was not executed. This is refusal 2 in this run: calling again cannot help.")
			assert.Contains(t, other.ForModel(), "get_shipping_label was not executed. This is refusal 3 in this run")
			assert.Equal(t, sibling, other.Unavailable.Tool)
		})
	}
}

// A model once called an unavailable tool in a loop until the history was full.
func TestRun_SchedulesAnUnavailableToolOnce(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuse(shared()))
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		for i := range 10 {
			assert.Equal(t, i+1, call(ctx, tool, query{}).Unavailable.Refusals)
		}
	})
	assert.Equal(t, map[string]int{tool: 1}, env.started)
}

func TestRun_WithoutMemoryEachCallIsMade(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuse(shared()))
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		for range 2 {
			assert.Zero(t, call(once(ctx), tool, query{}).Unavailable.Refusals, "nothing counts")
		}
		assert.Empty(t, toolcall.AvailableTools(ctx))
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	assert.Equal(t, map[string]int{tool: 2}, env.started)
}

func TestRun_DoesNotAffectOtherDependencies(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuse(shared()))
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		call(ctx, tool, query{})
		assert.Equal(t, toolcall.Value(inTransit), call(ctx, otherTool, query{}))
	})
}

// If the dependency is still down at the retry time, the count continues.
func TestRun_CallsAgainAtTheRetryTime(t *testing.T) {
	t.Parallel()
	calls := 0
	env := newAgentEnv(func(context.Context, query) (status, error) {
		r := refusal()
		if calls++; calls == 2 {
			r.RetryAt = now.Add(time.Minute)
		}
		return status{}, refusedWith(toolcall.NewUnavailable(toolcall.About{Tool: tool}, r, now))
	})
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		call(ctx, tool, query{})
		sleep(ctx, 29*time.Second)
		assert.Equal(t, 2, call(ctx, tool, query{}).Unavailable.Refusals)
		sleep(ctx, time.Second)
		again := call(ctx, tool, query{}).Unavailable
		assert.Equal(t, 3, again.Refusals)
		assert.Contains(t, again.Message, "refusal 3 in this run")
		assert.Equal(t, 4, call(ctx, tool, query{}).Unavailable.Refusals)
	})
	assert.Equal(t, 2, env.started[tool])
}

func TestRun_AnAnswerClearsTheRefusal(t *testing.T) {
	t.Parallel()
	calls := 0
	env := newAgentEnv(func(ctx context.Context, q query) (status, error) {
		if calls++; calls == 2 {
			return inTransit, nil
		}
		return refuse(shared())(ctx, q)
	})
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		assert.Equal(t, 1, call(ctx, tool, query{}).Unavailable.Refusals)
		sleep(ctx, time.Minute)
		assert.True(t, call(ctx, sibling, query{}).Answered())
		assert.Equal(t, 1, call(ctx, tool, query{}).Unavailable.Refusals, "only consecutive refusals are counted")
	})
}

// A failed call, for example one of the ramp, does not show that the dependency has
// recovered.
func TestRun_AFailureKeepsTheRefusal(t *testing.T) {
	t.Parallel()
	calls := 0
	env := newAgentEnv(func(ctx context.Context, q query) (status, error) {
		if calls++; calls == 2 {
			return status{}, errors.New("down")
		}
		return refuse(shared())(ctx, q)
	})
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		call(ctx, tool, query{})
		sleep(ctx, time.Minute)
		assert.Equal(t, toolcall.Failed, call(ctx, tool, query{}).Outcome())
		assert.Equal(t, 2, call(ctx, tool, query{}).Unavailable.Refusals)
	})
}

// Workers of another task queue may call another region.
func TestRun_RemembersEachTaskQueueSeparately(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuse(shared()))
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		otherQueue := workflow.WithTaskQueue(ctx, "us-east")
		for range 2 {
			call(ctx, tool, query{})
			call(otherQueue, tool, query{})
		}
	})
	assert.Equal(t, map[string]int{tool: 2}, env.started)
}

func TestRun_ComparesTheRegionsOfTheArguments(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuseInRegion)
	env.within(t, toolcall.Run{Region: func(args []any) string { return args[0].(query).Region }}, func(ctx workflow.Context) {
		call(ctx, tool, inRegion("eu"))
		call(ctx, tool, query{ID: "PKG-2", Region: "eu"})
		call(ctx, sibling, inRegion("eu"))
		assert.Equal(t, map[string]int{tool: 1}, env.started)
		call(ctx, tool, inRegion("us"))
	})
	assert.Equal(t, map[string]int{tool: 2}, env.started)
}

// Without Run.Region, only the worker knows the region of other arguments.
func TestRun_WithoutRegionComparesTheArguments(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuseInRegion)
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		call(ctx, tool, raw(`{"id":"PKG-1","region":"eu"}`))
		assert.Equal(t, 2, call(ctx, tool, raw("{ \"id\": \"PKG-1\",\n\"region\": \"eu\" }")).Unavailable.Refusals)
		assert.Equal(t, 3, call(ctx, tool, inRegion("eu")).Unavailable.Refusals)
		assert.Equal(t, map[string]int{tool: 1}, env.started)
		call(ctx, sibling, inRegion("eu"))
		call(ctx, tool, query{ID: "PKG-2", Region: "eu"})
	})
	assert.Equal(t, map[string]int{tool: 2, sibling: 1}, env.started)
}

func TestRun_RemembersAllArgumentsOfOneRegion(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuseInRegion)
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		for range 2 {
			for i := range 3 {
				call(ctx, tool, query{ID: fmt.Sprint(i), Region: "eu"})
			}
		}
	})
	assert.Equal(t, 3, env.started[tool])
}

// The same arguments may mean another region for another tool.
func TestRun_RemembersArgumentsPerTool(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuseInRegion)
	first, second := query{ID: "1", Region: "eu"}, query{ID: "2", Region: "eu"}
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		call(ctx, tool, first)
		call(ctx, sibling, second)
		call(ctx, sibling, first)
	})
	assert.Equal(t, map[string]int{tool: 1, sibling: 2}, env.started)
}

// Get has no arguments. A Region function that reads the first one would panic and
// fail the workflow task again and again, and only during an outage.
func TestRun_DoesNotCallRegionWithoutArguments(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(func(ctx context.Context, q query) (status, error) {
		if q.Region == "us" {
			return inTransit, nil
		}
		return refuseInRegion(ctx, q)
	})
	env.within(t, toolcall.Run{Region: func(args []any) string { return args[0].(query).Region }}, func(ctx workflow.Context) {
		call(ctx, tool, inRegion("eu"))
		r, err := toolcall.Get[status](ctx, tool, workflow.ExecuteActivity(ctx, tool, inRegion("us")))
		assert.NoError(t, err)
		assert.True(t, r.Answered())
		call(ctx, tool)
		assert.Equal(t, 3, env.started[tool])
		call(ctx, tool, inRegion("eu"))
	})
	assert.Equal(t, 3, env.started[tool], "an answer of another region keeps the refusal")
}

func TestRun_RemembersALimitedNumberOfRegions(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuseInRegion)
	env.within(t, toolcall.Run{Region: func(args []any) string { return args[0].(query).Region }}, func(ctx workflow.Context) {
		for i := range 101 {
			call(ctx, tool, inRegion(fmt.Sprint(i)))
		}
		call(ctx, tool, inRegion("100"))
		call(ctx, tool, inRegion("1"))
		assert.Equal(t, 101, env.started[tool])
		call(ctx, tool, inRegion("0"))
	})
	assert.Equal(t, 102, env.started[tool], "the oldest is forgotten")
}

func TestRun_RemembersALimitedNumberOfArguments(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuseInRegion)
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		for i := range 101 {
			call(ctx, tool, query{ID: fmt.Sprint(i), Region: "eu"})
		}
		call(ctx, tool, query{ID: "100", Region: "eu"})
		call(ctx, tool, query{ID: "1", Region: "eu"})
		assert.Equal(t, 101, env.started[tool])
		call(ctx, tool, query{ID: "0", Region: "eu"})
	})
	assert.Equal(t, 102, env.started[tool], "the oldest are forgotten")
}

func TestRun_RemembersRefusalsOfParallelCalls(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuse(shared()))
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		_, err := toolcall.ExecuteAll(ctx, toolcall.Call[status]{Tool: tool, Args: []any{query{}}})
		assert.NoError(t, err)
		results, err := toolcall.ExecuteAll(ctx,
			toolcall.Call[status]{Tool: tool, Args: []any{query{}}}, toolcall.Call[status]{Tool: sibling, Args: []any{query{}}})
		assert.NoError(t, err)
		assert.Equal(t, 2, results[0].Unavailable.Refusals)
		assert.Equal(t, 3, results[1].Unavailable.Refusals)
	})
	assert.Equal(t, map[string]int{tool: 1}, env.started)
}

func TestRun_RemembersRefusalsOfGet(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuse(shared()))
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		r, err := toolcall.Get[status](ctx, tool, workflow.ExecuteActivity(ctx, tool, query{}))
		assert.NoError(t, err)
		assert.Equal(t, 1, r.Unavailable.Refusals)
		assert.Equal(t, 2, call(ctx, sibling, query{}).Unavailable.Refusals)
	})
	assert.Equal(t, map[string]int{tool: 1}, env.started)
}

// The dependency's own wording is for the first refusal. Later messages begin with
// the number of the refusal.
func TestRun_KeepsTheDependencysOwnWording(t *testing.T) {
	t.Parallel()
	const own = "The carrier is down. Offer the customer a call back."
	env := newAgentEnv(refuse(wordedAs(own)))
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		for _, want := range []string{
			own,
			"This is refusal 2 in this run: calling again cannot help. " + own,
			"This is refusal 3 in this run: calling again cannot help. " + own,
		} {
			u := call(ctx, tool, query{}).Unavailable
			assert.Equal(t, want, u.Message)
			assert.True(t, u.Worded)
		}
	})
}

func TestRun_DropsAWordingThatIsTooLongForTheCount(t *testing.T) {
	t.Parallel()
	own := strings.Repeat("x", 499)
	env := newAgentEnv(refuse(wordedAs(own)))
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		assert.Equal(t, own, call(ctx, tool, query{}).ForModel())
		u := call(ctx, tool, query{}).Unavailable
		assert.Contains(t, u.Message, "get_delivery_status was not executed. This is refusal 2 in this run")
		assert.False(t, u.Worded)
	})
}

func wordedAs(text string) *toolcall.Unavailable {
	u := toolcall.NewUnavailable(toolcall.About{
		Tool: tool, Wording: func(toolcall.Unavailable) string { return text },
	}, refusal(), now)
	return &u
}

func TestAvailableTools_LeavesOutRefusedTools(t *testing.T) {
	t.Parallel()
	all := []string{tool, sibling, otherTool}
	env := newAgentEnv(refuse(shared()))
	env.within(t, toolcall.Run{Tools: all}, func(ctx workflow.Context) {
		assert.Equal(t, all, toolcall.AvailableTools(ctx))
		call(ctx, tool, query{})
		assert.Equal(t, []string{otherTool}, toolcall.AvailableTools(ctx))
		sleep(ctx, 30*time.Second)
		assert.Equal(t, all, toolcall.AvailableTools(ctx))
	})
}

func TestAvailableTools_WithoutToolsIsEmpty(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuse(shared()))
	env.within(t, toolcall.Run{}, func(ctx workflow.Context) {
		call(ctx, tool, query{})
		assert.Empty(t, toolcall.AvailableTools(ctx))
	})
}

// The model chooses the region, so the tool is still useful.
func TestAvailableTools_KeepsAToolThatWorksInAnotherRegion(t *testing.T) {
	t.Parallel()
	for from, want := range map[string][]string{
		toolcall.RegionFromInput:  {tool, otherTool},
		toolcall.RegionFromWorker: {otherTool},
	} {
		u := toolcall.NewUnavailable(toolcall.About{Tool: tool, RegionFrom: from, Alternatives: []string{"us-east"}}, refusal(), now)
		env := newAgentEnv(refuse(&u))
		env.within(t, toolcall.Run{Tools: []string{tool, otherTool}}, func(ctx workflow.Context) {
			call(ctx, tool, query{})
			assert.Equal(t, want, toolcall.AvailableTools(ctx), from)
		})
	}
}

func TestAvailableTools_LeavesOutAToolThatWorksInNoRegion(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuseInRegion)
	env.within(t, toolcall.Run{Tools: []string{tool, otherTool}}, func(ctx workflow.Context) {
		call(ctx, tool, inRegion("eu"))
		assert.Equal(t, []string{otherTool}, toolcall.AvailableTools(ctx))
	})
}

// Temporal retries an activity that no worker has without end.
func TestRun_DoesNotCallUnknownTools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ tool, message string }{
		"another name":      {"get_status", "There is no tool get_status. Tools: get_delivery_status, get_weather."},
		"another case":      {"Get_Weather", "There is no tool Get_Weather. Tools: get_delivery_status, get_weather."},
		"not UTF-8":         {"get\xff_status", "There is no tool get_status. Tools: get_delivery_status, get_weather."},
		"no name":           {"", "No tool was called: the call names none."},
		"a very long name":  {strings.Repeat("n", 10000), "There is no tool " + strings.Repeat("n", 100) + "…. Tools: get_delivery_status, get_weather."},
		"cut within a rune": {strings.Repeat("語", 10000), "There is no tool " + strings.Repeat("語", 33) + "…. Tools: get_delivery_status, get_weather."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newAgentEnv(answer)
			env.within(t, toolcall.Run{Tools: []string{tool, otherTool}}, func(ctx workflow.Context) {
				r := call(ctx, c.tool, query{})
				assert.Equal(t, toolcall.TypeUnknownTool, r.Error.Type)
				assert.Equal(t, c.message, r.ForModel())
				assert.Less(t, len(r.Error.Tool), 110)
			})
			assert.Empty(t, env.started)
		})
	}
}

func TestRun_NamesItsToolsOnlyIfAllFit(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(answer)
	tools := strings.Split(strings.Repeat("a_tool_of_many ", 40), " ")
	env.within(t, toolcall.Run{Tools: tools}, func(ctx workflow.Context) {
		assert.Equal(t, "There is no tool get_delivery_status.", call(ctx, tool, query{}).ForModel())
	})
}

// The server fails the whole run over such an activity type.
func TestExecute_RejectsInvalidToolNames(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]string{
		"none":      "",
		"too long":  strings.Repeat("n", 1001),
		"not UTF-8": "get\xff_status",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newAgentEnv(answer)
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				r := call(once(ctx), made, query{})
				assert.Equal(t, toolcall.TypeUnknownTool, r.Error.Type)
				assert.NotEmpty(t, r.ForModel())
				assert.Less(t, len(r.ForModel()), 500)
				return nil
			})
			require.NoError(t, env.GetWorkflowError())
			assert.Empty(t, env.started)
		})
	}
}

func TestRun_CallsNothingAfterItsDeadline(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(answer)
	env.within(t, toolcall.Run{Deadline: time.Minute}, func(ctx workflow.Context) {
		assert.True(t, call(ctx, tool, query{}).Answered())
		sleep(ctx, time.Minute)
		assert.Equal(t, toolcall.Result[status]{Error: &toolcall.ToolError{
			Type: "NoTimeLeft", Tool: tool,
			Message: "get_delivery_status was not called: this run has no time left. Answer with what you have, or escalate.",
		}}, call(ctx, tool, query{}))
	})
	assert.Equal(t, map[string]int{tool: 1}, env.started)
}

func TestRun_CutsACallOffAtItsDeadline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ deadline, own, want time.Duration }{
		"no deadline":             {0, time.Hour, time.Hour},
		"no limit of the call":    {time.Minute, 0, 40 * time.Second},
		"a longer one":            {time.Minute, time.Hour, 40 * time.Second},
		"a shorter one":           {time.Minute, 10 * time.Second, 10 * time.Second},
		"neither limits the call": {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newAgentEnv(answer)
			scheduled := scheduledWith(env)
			env.within(t, toolcall.Run{Deadline: c.deadline}, func(ctx workflow.Context) {
				sleep(ctx, 20*time.Second)
				call(workflow.WithScheduleToCloseTimeout(ctx, c.own), tool, query{})
			})
			require.Len(t, *scheduled, 1)
			assert.InDelta(t, c.want.Seconds(), (*scheduled)[0].ScheduleToCloseTimeout.Seconds(), 0.5)
			assert.Equal(t, 5*time.Second, (*scheduled)[0].StartToCloseTimeout)
		})
	}
}

// A refusal tells the model more than a passed deadline.
func TestRun_ARefusalPrecedesThePassedDeadline(t *testing.T) {
	t.Parallel()
	env := newAgentEnv(refuse(shared()))
	env.within(t, toolcall.Run{Deadline: 10 * time.Second}, func(ctx workflow.Context) {
		call(ctx, tool, query{})
		sleep(ctx, 20*time.Second)
		assert.Equal(t, toolcall.Refused, call(ctx, tool, query{}).Outcome())
	})
}
