package e2e_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// toolbox is registered as a whole: its tools have the names of its methods.
type toolbox struct{ bench *bench }

func (b *toolbox) ToolOfAStruct(ctx context.Context, fail bool) (string, error) {
	return b.bench.counting("ToolOfAStruct", obliging)(ctx, fail)
}

// satchel is registered by its one method, as a function, and once more as a whole
// with a prefix to the names.
type satchel struct{ bench *bench }

func (s *satchel) FunctionByItsName(ctx context.Context, fail bool) (string, error) {
	return s.bench.counting(activity.GetInfo(ctx).ActivityType.Name, obliging)(ctx, fail)
}

// Closed, a breaker lets a tool pass and counts it; open, the tool is not called.
// However the SDK comes by the tool.
func testEndingsKinds(t *testing.T) {
	b := newBench(t, client.Options{})
	type kind struct {
		tool string
		plan plan
		// standalone: no workflow calls it.
		standalone bool
	}
	kinds := []kind{
		{tool: "registered-under-a-name"},
		{tool: "of-a-typed-result"},
		{tool: "ToolOfAStruct"},
		{tool: "FunctionByItsName"},
		{tool: "prefixed-FunctionByItsName"},
		{tool: "of-a-local-activity", plan: plan{How: asLocal}},
		{tool: "of-a-typed-local-activity", plan: plan{How: asLocal}},
		{tool: "of-a-session", plan: plan{How: inSession}},
		{tool: "of-a-dynamic-activity", plan: plan{Queue: "dynamic"}},
		{tool: "of-a-standalone-activity", standalone: true},
	}
	for _, k := range kinds {
		b.guard(k.tool, opened(3))
	}
	b.guard("of-nobody", opened(1))
	for _, name := range []string{"registered-under-a-name", "of-a-local-activity", "of-a-session", "of-a-standalone-activity"} {
		b.register(name, obliging)
	}
	b.activities = append(b.activities, func(r worker.Registry) {
		r.RegisterActivity(&toolbox{b})
		r.RegisterActivity((&satchel{b}).FunctionByItsName)
		r.RegisterActivityWithOptions(&satchel{b}, activity.RegisterOptions{Name: "prefixed-"})
		for _, name := range []string{"of-a-typed-result", "of-a-typed-local-activity"} {
			r.RegisterActivityWithOptions(func(ctx context.Context, fail bool) (toolcall.Result[string], error) {
				value, err := b.counting(name, obliging)(ctx, fail)
				return toolcall.Value(value), err
			}, activity.RegisterOptions{Name: name})
		}
	})
	b.makePlugin()
	tools := b.newWorker("tools", worker.Options{EnableSessionWorker: true}, b.activities...)
	dynamic := b.newWorker("dynamic", worker.Options{})
	dynamic.RegisterDynamicActivity(func(ctx context.Context, args converter.EncodedValues) (string, error) {
		var fail bool
		if err := args.Get(&fail); err != nil {
			return "", err
		}
		return b.counting(activity.GetInfo(ctx).ActivityType.Name, obliging)(ctx, fail)
	}, activity.DynamicRegisterOptions{})
	for _, w := range []worker.Worker{tools, dynamic} {
		require.NoError(t, w.Start())
		t.Cleanup(w.Stop)
	}

	for _, k := range kinds {
		t.Run(k.tool, func(t *testing.T) {
			t.Parallel()
			call := func(fail bool) answer {
				if k.standalone {
					return b.callAlone(t, k.tool, fail)
				}
				k.plan.Tool, k.plan.Fail = k.tool, fail
				return b.call(t, k.plan)
			}
			assert.Equal(t, breaker.Closed, b.breaker(k.tool).State)
			got := call(false)
			assert.Empty(t, got.Error)
			if !k.standalone {
				assert.Equal(t, toolcall.OK, got.outcome())
				assert.Equal(t, `"fine"`, got.Result.ForModel())
			}
			b.expect(t, k.tool, answered)

			for range 2 {
				assert.Equal(t, "retryable", call(true).Error)
			}
			assert.Equal(t, breaker.Open, b.breaker(k.tool).State, "two of three have failed")
			got = call(false)
			if k.standalone {
				assert.Equal(t, "DependencyUnavailable non-retryable", got.Error)
			} else {
				assertRefused(t, k.tool, got)
			}
			assert.Equal(t, 3, b.calls(k.tool), "the refused call did not reach the tool")
			s := b.settled(t, k.tool)
			assert.EqualValues(t, 3, s.Counted, "a refusal is no sample")
			assert.EqualValues(t, 1, s.Refused)
		})
	}
	t.Run("of-nobody", func(t *testing.T) {
		t.Parallel()
		// A tool that the worker of this queue does not have. The SDK says so before
		// any interceptor is asked.
		got := b.call(t, plan{Tool: "of-nobody"})
		assert.Equal(t, toolcall.Failed, got.outcome())
		assert.Equal(t, "ActivityNotRegisteredError", got.kind())
		b.expect(t, "of-nobody", nothing)
	})
	t.Cleanup(func() {
		// Each call in a session is wrapped by two activities of the SDK's own.
		assert.Len(t, b.plugin.Breakers(), len(kinds), "nothing else was guarded")
	})
}

// callAlone executes an activity without a workflow.
func (b *bench) callAlone(t *testing.T, tool string, fail bool) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	handle, err := b.client.ExecuteActivity(ctx, client.StartActivityOptions{
		ID: t.Name(), TaskQueue: "tools", StartToCloseTimeout: patience,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}, tool, fail)
	require.NoError(t, err)
	return answer{Error: inShort(handle.Get(ctx, nil))}
}
