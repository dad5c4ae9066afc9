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

// structTools is registered as a struct, so its method is a tool.
type structTools struct{ harness *harness }

func (s *structTools) StructMethod(ctx context.Context, fail bool) (string, error) {
	return s.harness.counted("StructMethod", failOnRequest)(ctx, fail)
}

// methodTool is registered twice: its method as a function, and the struct with a name
// prefix.
type methodTool struct{ harness *harness }

func (s *methodTool) FunctionName(ctx context.Context, fail bool) (string, error) {
	return s.harness.counted(activity.GetInfo(ctx).ActivityType.Name, failOnRequest)(ctx, fail)
}

// The breaker guards a tool in the same way for each way to register and call it.
func testActivityKinds(t *testing.T) {
	h := newHarness(t, client.Options{})
	type kind struct {
		tool string
		spec callSpec
		// standalone activities are executed without a workflow.
		standalone bool
	}
	kinds := []kind{
		{tool: "named-function"},
		{tool: "typed-result"},
		{tool: "StructMethod"},
		{tool: "FunctionName"},
		{tool: "prefixed-FunctionName"},
		{tool: "local-activity", spec: callSpec{Kind: asLocal}},
		{tool: "typed-local-activity", spec: callSpec{Kind: asLocal}},
		{tool: "session-activity", spec: callSpec{Kind: inSession}},
		{tool: "dynamic-activity", spec: callSpec{Queue: "dynamic"}},
		{tool: "standalone-activity", standalone: true},
	}
	for _, k := range kinds {
		h.addDependency(k.tool, tripsAfter(3))
	}
	h.addDependency("not-registered", tripsAfter(1))
	for _, name := range []string{"named-function", "local-activity", "session-activity", "standalone-activity"} {
		h.registerTool(name, failOnRequest)
	}
	h.activities = append(h.activities, func(r worker.Registry) {
		r.RegisterActivity(&structTools{h})
		r.RegisterActivity((&methodTool{h}).FunctionName)
		r.RegisterActivityWithOptions(&methodTool{h}, activity.RegisterOptions{Name: "prefixed-"})
		for _, name := range []string{"typed-result", "typed-local-activity"} {
			r.RegisterActivityWithOptions(func(ctx context.Context, fail bool) (toolcall.Result[string], error) {
				value, err := h.counted(name, failOnRequest)(ctx, fail)
				return toolcall.Value(value), err
			}, activity.RegisterOptions{Name: name})
		}
	})
	h.createPlugin()
	tools := h.newWorker("tools", worker.Options{EnableSessionWorker: true}, h.activities...)
	dynamic := h.newWorker("dynamic", worker.Options{})
	dynamic.RegisterDynamicActivity(func(ctx context.Context, args converter.EncodedValues) (string, error) {
		var fail bool
		if err := args.Get(&fail); err != nil {
			return "", err
		}
		return h.counted(activity.GetInfo(ctx).ActivityType.Name, failOnRequest)(ctx, fail)
	}, activity.DynamicRegisterOptions{})
	for _, w := range []worker.Worker{tools, dynamic} {
		require.NoError(t, w.Start())
		t.Cleanup(w.Stop)
	}

	for _, k := range kinds {
		t.Run(k.tool, func(t *testing.T) {
			t.Parallel()
			call := func(fail bool) callResult {
				if k.standalone {
					return h.callStandalone(t, k.tool, fail)
				}
				k.spec.Tool, k.spec.Fail = k.tool, fail
				return h.call(t, k.spec)
			}
			assert.Equal(t, breaker.Closed, h.snapshot(k.tool).State)
			got := call(false)
			assert.Empty(t, got.Error)
			if !k.standalone {
				assert.Equal(t, toolcall.OK, got.outcome())
				assert.Equal(t, `"fine"`, got.Result.ForModel())
			}
			h.awaitSamples(t, k.tool, answered)

			for range 2 {
				assert.Equal(t, "retryable", call(true).Error)
			}
			assert.Equal(t, breaker.Open, h.snapshot(k.tool).State, "two of three calls failed")
			got = call(false)
			if k.standalone {
				assert.Equal(t, "DependencyUnavailable non-retryable", got.Error)
			} else {
				assertRefused(t, k.tool, got)
			}
			assert.Equal(t, 3, h.executions(k.tool), "the refused call does not execute the tool")
			s := h.awaitNoneInFlight(t, k.tool)
			assert.EqualValues(t, 3, s.Counted, "a refused call is no sample")
			assert.EqualValues(t, 1, s.Refused)
		})
	}
	t.Run("not-registered", func(t *testing.T) {
		t.Parallel()
		// The SDK rejects an activity that is not registered before it calls interceptors.
		got := h.call(t, callSpec{Tool: "not-registered"})
		assert.Equal(t, toolcall.Failed, got.outcome())
		assert.Equal(t, "ActivityNotRegisteredError", got.errorType())
		h.awaitSamples(t, "not-registered", nothing)
	})
	t.Cleanup(func() {
		// The SDK runs two activities of its own for each session.
		assert.Len(t, h.plugin.Breakers(), len(kinds), "no other activity has a breaker")
	})
}

// callStandalone executes an activity without a workflow.
func (h *harness) callStandalone(t *testing.T, tool string, fail bool) callResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	handle, err := h.client.ExecuteActivity(ctx, client.StartActivityOptions{
		ID: t.Name(), TaskQueue: "tools", StartToCloseTimeout: waitTimeout,
		RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}, tool, fail)
	require.NoError(t, err)
	return callResult{Error: summarize(handle.Get(ctx, nil))}
}
