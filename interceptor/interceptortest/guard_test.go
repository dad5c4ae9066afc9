package interceptortest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/interceptor/interceptortest"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

const tool = "get_delivery_status"

var config = interceptor.Config{
	Region: "eu-west",
	Dependencies: []interceptor.Dependency{{
		Name: "carrier-api", Tools: interceptor.Tools(tool), Probe: interceptor.NoProbe(),
	}},
}

// agent calls the tool once.
func agent(ctx workflow.Context) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	status, err := toolcall.Execute[string](ctx, tool)
	return status.ForModel(), err
}

func status(context.Context) (string, error) { return "in transit", nil }

func run(t *testing.T, env *testsuite.TestWorkflowEnvironment) (text string) {
	t.Helper()
	env.ExecuteWorkflow(agent)
	require.NoError(t, env.GetWorkflowError())
	require.NoError(t, env.GetWorkflowResult(&text))
	return text
}

func TestGuard_OpensAndClosesTheBreaker(t *testing.T) {
	t.Parallel()
	guard := interceptortest.New(t, config)
	env := func() *testsuite.TestWorkflowEnvironment {
		env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
		env.SetWorkerOptions(guard.Options())
		env.RegisterActivityWithOptions(status, activity.RegisterOptions{Name: tool})
		return env
	}
	assert.Equal(t, `"in transit"`, run(t, env()))
	guard.Open("carrier-api", "eu-west")
	assert.Contains(t, run(t, env()), "carrier-api (eu-west) is temporarily unavailable; get_delivery_status was not executed.")
	guard.Close("carrier-api", "eu-west")
	assert.Equal(t, `"in transit"`, run(t, env()))
	assert.Equal(t, 3, guard.Calls(tool))
	assert.Equal(t, breaker.Closed, guard.Breaker("carrier-api", "eu-west").State)
	assert.Equal(t, int64(1), guard.Breaker("carrier-api", "eu-west").Refused)
}

func TestGuard_GuardsAToolThatIsMockedByAFunction(t *testing.T) {
	t.Parallel()
	guard := interceptortest.New(t, config)
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	env.SetWorkerOptions(guard.Options())
	env.RegisterActivityWithOptions(status, activity.RegisterOptions{Name: tool})
	env.OnActivity(tool, mock.Anything).Return(func(context.Context) (string, error) { return "mocked", nil })
	assert.Equal(t, `"mocked"`, run(t, env))
	assert.Equal(t, 1, guard.Calls(tool))
}

// recorder records the errors of a test.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any) {
	r.errors = append(r.errors, fmt.Sprint(args...))
}

// A mock with plain values bypasses the breaker, so such a test would always pass.
func TestGuard_FailsATestWithoutACall(t *testing.T) {
	t.Parallel()
	r := &recorder{TB: t}
	guard := interceptortest.New(r, config)
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	env.SetWorkerOptions(guard.Options())
	env.RegisterActivityWithOptions(status, activity.RegisterOptions{Name: tool})
	env.OnActivity(tool, mock.Anything).Return("mocked", nil)
	guard.Open("carrier-api", "eu-west")
	assert.Equal(t, `"mocked"`, run(t, env), "the breaker is open but bypassed")
	for _, f := range r.cleanups {
		f()
	}
	require.Len(t, r.errors, 1)
	assert.Contains(t, r.errors[0], "saw no call")
}
