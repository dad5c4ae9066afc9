package interceptortest_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/interceptor/interceptortest"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// In a test, t is its *testing.T.
func ExampleNew() {
	var t testing.TB = exampleT{}
	guard := interceptortest.New(t, interceptor.Config{
		Region: "eu-west",
		Dependencies: []interceptor.Dependency{{
			Name: "carrier-api", Tools: interceptor.Tools("get_delivery_status"), Probe: interceptor.NoProbe(),
		}},
	})
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(guard.Options())
	env.RegisterActivityWithOptions(func(context.Context, string) (string, error) { return "in transit", nil },
		activity.RegisterOptions{Name: "get_delivery_status"})

	guard.Open("carrier-api", "eu-west")
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		status, err := toolcall.Execute[string](ctx, "get_delivery_status", "PKG-1")
		fmt.Println(status.Outcome())
		return err
	})
	fmt.Println(guard.Calls("get_delivery_status"), "call,", guard.Breaker("carrier-api", "eu-west").Refused, "refused")
	// Output:
	// unavailable
	// 1 call, 1 refused
}

// exampleT replaces the *testing.T of a test.
type exampleT struct{ testing.TB }

func (exampleT) Helper()        {}
func (exampleT) Cleanup(func()) {}
