package toolcall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

type parcel struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

// inWorkflow runs f in a workflow at 14:00 UTC. The tool find_parcel answers, and
// the breaker of ship_parcel and print_label is open for 30 seconds.
func inWorkflow(f func(ctx workflow.Context) error) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetStartTime(now)
	env.RegisterActivityWithOptions(func(_ context.Context, id string) (parcel, error) {
		return parcel{ID: id, State: "in transit"}, nil
	}, activity.RegisterOptions{Name: "find_parcel"})
	env.RegisterActivityWithOptions(func(context.Context, string) (toolcall.Result[parcel], error) {
		u := toolcall.NewUnavailable(toolcall.About{Tool: "ship_parcel", Tools: []string{"ship_parcel", "print_label"}},
			breaker.Refusal{
				Key:   breaker.Key{Dependency: "carrier-api", Region: "eu-west"},
				Since: now.Add(-time.Minute), RetryAt: now.Add(30 * time.Second),
			}, now)
		return toolcall.Result[parcel]{Unavailable: &u}, nil
	}, activity.RegisterOptions{Name: "ship_parcel"})
	env.RegisterActivityWithOptions(func(context.Context, breaker.Key) error { return nil },
		activity.RegisterOptions{Name: toolcall.AwaitRecoveryActivity})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		return f(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: 30 * time.Second,
			RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 3},
		}))
	})
	if err := env.GetWorkflowError(); err != nil {
		fmt.Println(err)
	}
}

// A call ends in a text for the model, whether the tool answered or was refused.
func ExampleExecute() {
	inWorkflow(func(ctx workflow.Context) error {
		for _, tool := range []string{"find_parcel", "ship_parcel"} {
			result, err := toolcall.Execute[parcel](ctx, tool, "PKG-1")
			if err != nil {
				return err // the run itself is over: it was cancelled
			}
			fmt.Println(result.Outcome())
			fmt.Println(result.ForModel())
		}
		return nil
	})
	// Output:
	// value
	// {"id":"PKG-1","state":"in transit"}
	// unavailable
	// carrier-api (eu-west) is temporarily unavailable; ship_parcel was not executed. Do not call it again before 14:00:30 UTC (in 30 s). Proceed without this information if you can, or escalate with what you have.
}

// A run remembers a refusal. Until the retry time further calls are answered inside
// the workflow, and the tools are left out of the next prompt.
func ExampleWithRun() {
	inWorkflow(func(ctx workflow.Context) error {
		ctx = toolcall.WithRun(ctx, toolcall.Run{
			Tools:    []string{"find_parcel", "ship_parcel", "print_label"},
			Deadline: 2 * time.Minute,
		})
		for _, tool := range []string{"ship_parcel", "print_label", "cancel_parcel"} {
			result, err := toolcall.Execute[parcel](ctx, tool, "PKG-1")
			if err != nil {
				return err
			}
			fmt.Println(result.ForModel())
		}
		fmt.Println(toolcall.AvailableTools(ctx))
		return nil
	})
	// Output:
	// carrier-api (eu-west) is temporarily unavailable; ship_parcel was not executed. Do not call it again before 14:00:30 UTC (in 30 s). Proceed without this information if you can, or escalate with what you have.
	// carrier-api (eu-west) is temporarily unavailable; print_label was not executed. This is refusal 2 in this run: calling again cannot help. Do not call it again before 14:00:30 UTC (in 30 s). Proceed without this information if you can, or escalate with what you have.
	// There is no tool cancel_parcel. Tools: find_parcel, ship_parcel, print_label.
	// [find_parcel]
}

// The calls of one turn run in parallel. Names and arguments come from the model.
func ExampleExecuteAll() {
	inWorkflow(func(ctx workflow.Context) error {
		results, err := toolcall.ExecuteAll(ctx,
			toolcall.Call[json.RawMessage]{Tool: "find_parcel", Args: []any{json.RawMessage(`"PKG-1"`)}},
			toolcall.Call[json.RawMessage]{Tool: "find_parcel", Args: []any{json.RawMessage(`PKG-2`)}},
		)
		if err != nil {
			return err
		}
		for _, result := range results {
			fmt.Println(result.ForModel())
		}
		return nil
	})
	// Output:
	// {"id":"PKG-1","state":"in transit"}
	// find_parcel was not called: its arguments are not valid JSON. Call it again with a JSON object.
}

// While the carrier is down, the model reads a cached value and its age.
func ExampleCall() {
	inWorkflow(func(ctx workflow.Context) error {
		result, err := toolcall.Call[parcel]{
			Tool:     "ship_parcel",
			Args:     []any{"PKG-1"},
			Fallback: toolcall.Cached(parcel{ID: "PKG-1", State: "packed"}, now.Add(-time.Hour)),
		}.Execute(ctx)
		if err != nil {
			return err
		}
		fmt.Println(result.Outcome(), "because", result.StandIn.Because)
		fmt.Println(result.ForModel())
		return nil
	})
	// Output:
	// degraded because unavailable
	// ship_parcel is not available now. This answer is from cache of 2026-03-01 13:00 UTC instead, and may be incomplete or out of date: {"id":"PKG-1","state":"packed"}
}

// Another tool answers instead. It has a breaker of its own.
func ExampleInstead() {
	inWorkflow(func(ctx workflow.Context) error {
		result, err := toolcall.Call[parcel]{
			Tool:     "ship_parcel",
			Args:     []any{"PKG-1"},
			Fallback: toolcall.Instead[parcel]("find_parcel", "PKG-1"),
		}.Execute(ctx)
		if err != nil {
			return err
		}
		fmt.Println(result.Value.State, "from", result.StandIn.From)
		return nil
	})
	// Output: in transit from find_parcel
}

// A function of the workflow answers instead.
func ExampleFallbackFunc() {
	inWorkflow(func(ctx workflow.Context) error {
		result, err := toolcall.Call[parcel]{
			Tool: "ship_parcel",
			Args: []any{"PKG-1"},
			Fallback: toolcall.FallbackFunc("the order database", func(workflow.Context) (parcel, error) {
				return parcel{ID: "PKG-1", State: "ordered"}, nil
			}),
		}.Execute(ctx)
		if err != nil {
			return err
		}
		fmt.Println(result.Value.State, "from", result.StandIn.From)
		return nil
	})
	// Output: ordered from the order database
}

// A run that cannot go on without the dependency waits for it.
func ExampleAwaitRecovery() {
	inWorkflow(func(ctx workflow.Context) error {
		recovered, err := toolcall.AwaitRecovery(ctx, "carrier-api", "eu-west", time.Hour)
		if err != nil {
			return err
		}
		fmt.Println("recovered:", recovered)
		return nil
	})
	// Output: recovered: true
}

// Code reads the fields of a refusal. The model reads its text, or a JSON object.
func ExampleNewUnavailable() {
	u := toolcall.NewUnavailable(
		toolcall.About{Tool: "ship_parcel", Required: true},
		breaker.Refusal{
			Key:   breaker.Key{Dependency: "carrier-api", Region: "eu-west"},
			Since: now.Add(-time.Minute), RetryAt: now.Add(30 * time.Second),
		}, now)
	result := toolcall.Result[parcel]{Unavailable: &u}
	fmt.Println(result.Unavailable.Dependency, result.Unavailable.RetryAfterSeconds)
	fmt.Println(string(result.JSONForModel()))
	// Output:
	// carrier-api 30
	// {"status":"unavailable","message":"carrier-api (eu-west) is temporarily unavailable; ship_parcel was not executed. Do not call it again before 14:00:30 UTC (in 30 s). It is required: wait until then, or stop and escalate; do not answer without it.","dependency":"carrier-api","region":"eu-west","retry_after_seconds":30}
}

// An activity that returns a Result gives its answer with Value.
func ExampleValue() {
	text, _ := json.Marshal(toolcall.Value(parcel{ID: "PKG-1", State: "packed"}))
	fmt.Println(string(text))
	// Output: {"toolbreaker":"value","value":{"id":"PKG-1","state":"packed"}}
}
