package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/activities/orders"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/toolcall"
	"github.com/toolbreaker/toolbreaker/worker/agent"
)

// modelFunc is a model that calls a function. It records the conversations.
type modelFunc struct {
	next func(c agent.Conversation) (agent.Turn, error)

	mu    sync.Mutex
	asked []agent.Conversation
}

func model(next func(c agent.Conversation) (agent.Turn, error)) *modelFunc {
	return &modelFunc{next: next}
}

func (m *modelFunc) Next(_ context.Context, c agent.Conversation) (agent.Turn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, c)
	return m.next(c)
}

func requests(namesAndArguments ...string) agent.Turn {
	var t agent.Turn
	for i := 0; i < len(namesAndArguments); i += 2 {
		c := agent.Call{Tool: namesAndArguments[i]}
		if args := namesAndArguments[i+1]; args != "" {
			c.Args = json.RawMessage(args)
		}
		t.Calls = append(t.Calls, c)
	}
	return t
}

func answers(text string) agent.Turn { return agent.Turn{Answer: &agent.Answer{Text: text}} }

// testEnv runs the workflow with tools that succeed, except for the broken ones.
type testEnv struct {
	env *testsuite.TestWorkflowEnvironment

	mu sync.Mutex
	// started counts attempts by activity type.
	started map[string]int
	broken  map[string]error
}

func newTestEnv(t *testing.T, models ...agent.Model) *testEnv {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	e := &testEnv{env: suite.NewTestWorkflowEnvironment(), started: map[string]int{}, broken: map[string]error{}}
	e.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.started[info.ActivityType.Name]++
	})
	agent.Register(e.env, models...)
	tool(e, orders.LookupOrder, func(q orders.Query) orders.Order {
		return orders.Order{ID: q.OrderID, Item: "desk lamp", TrackingID: "PKG-1", Region: carriertools.RegionEUWest}
	})
	tool(e, carriertools.GetDeliveryStatus, func(q carriertools.Query) carriertools.Status {
		return carriertools.Status{TrackingID: q.TrackingID, State: "in_transit", LastLocation: "depot"}
	})
	tool(e, carriertools.GetTrackingEvents, func(q carriertools.Query) carriertools.Events {
		return carriertools.Events{TrackingID: q.TrackingID}
	})
	tool(e, carriertools.CreateReturnLabel, func(q carriertools.Query) carriertools.Label {
		return carriertools.Label{ID: "LBL-1", TrackingID: q.TrackingID}
	})
	return e
}

func tool[Q, A any](e *testEnv, name string, answer func(Q) A) {
	e.env.RegisterActivityWithOptions(func(_ context.Context, q Q) (a A, err error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if err := e.broken[name]; err != nil {
			return a, err
		}
		return answer(q), nil
	}, activity.RegisterOptions{Name: name})
}

func (e *testEnv) breakTools(err error, names ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range names {
		e.broken[name] = err
	}
}

func (e *testEnv) run(t *testing.T) agent.Outcome {
	t.Helper()
	e.env.ExecuteWorkflow(agent.WorkflowType, agent.Ticket{ID: "1", OrderID: "EU-1", Question: "Where is my parcel?"})
	require.True(t, e.env.IsWorkflowCompleted())
	require.NoError(t, e.env.GetWorkflowError())
	var out agent.Outcome
	require.NoError(t, e.env.GetWorkflowResult(&out))
	return out
}

var carrierTools = []string{carriertools.GetDeliveryStatus, carriertools.GetTrackingEvents, carriertools.CreateReturnLabel}

// unavailable returns the error of an activity whose breaker is open.
func unavailable(dependency string, tools ...string) error {
	now := time.Now()
	u := toolcall.NewUnavailable(toolcall.About{Tool: tools[0], Tools: tools, RegionFrom: toolcall.RegionFromInput}, breaker.Refusal{
		Key: breaker.Key{Dependency: dependency, Region: carriertools.RegionEUWest}, Since: now, RetryAt: now.Add(time.Hour),
	}, now)
	if dependency != carriertools.Dependency {
		u.RegionFrom = toolcall.RegionFromWorker
	}
	return temporal.NewApplicationErrorWithOptions(u.Message, toolcall.DependencyUnavailable,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{u}})
}

func assertEscalated(t *testing.T, out agent.Outcome) {
	t.Helper()
	assert.True(t, out.Partial)
	assert.NotEmpty(t, out.Text)
	assert.NotEmpty(t, out.Escalation)
}

func TestSupportTicket_EndsWithTheModelsAnswer(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, agent.Scripted{})
	out := e.run(t)
	assert.Equal(t, agent.Answer{Text: "Your desk lamp is in_transit, last seen at depot."}, out.Answer)
	assert.Equal(t, 3, out.ToolCalls)
	assert.Zero(t, out.Unavailable)
}

// The model calls an unavailable tool again and again.
func TestSupportTicket_RepeatedCallsOfAnUnavailableTool(t *testing.T) {
	t.Parallel()
	const repeats = 10
	repeat := requests(carriertools.GetDeliveryStatus, parcel)
	for name, m := range map[string]agent.Model{
		"in every turn": model(func(agent.Conversation) (agent.Turn, error) { return repeat, nil }),
		"several times in a turn": model(func(agent.Conversation) (agent.Turn, error) {
			return agent.Turn{Calls: []agent.Call{repeat.Calls[0], repeat.Calls[0], repeat.Calls[0]}}, nil
		}),
		"with other arguments each time": model(func(c agent.Conversation) (agent.Turn, error) {
			return requests(carriertools.GetDeliveryStatus, fmt.Sprintf(`{"tracking_id": "PKG-%d", "region": "eu-west"}`, len(c.Transcript))), nil
		}),
		"without a region": model(func(agent.Conversation) (agent.Turn, error) {
			return requests(carriertools.GetDeliveryStatus, `{"tracking_id": "PKG-1"}`), nil
		}),
		"by another tool of the same dependency": model(func(c agent.Conversation) (agent.Turn, error) {
			return requests(carrierTools[len(c.Transcript)%len(carrierTools)], parcel), nil
		}),
		"ten times, over an API": startFakeAPI(t, func(w http.ResponseWriter, _ *http.Request, n int) {
			if n > repeats {
				respond(w, text("I could not find your parcel."))
				return
			}
			respond(w, toolCalls(carriertools.GetDeliveryStatus, parcel))
		}).model("m"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t, m)
			e.breakTools(unavailable(carriertools.Dependency, carrierTools...), carrierTools...)
			out := e.run(t)
			scheduled := 0
			for _, tool := range carrierTools {
				scheduled += e.started[tool]
			}
			assert.LessOrEqual(t, scheduled, 1)
			assert.GreaterOrEqual(t, out.Unavailable, repeats, "each call was answered")
			assertEscalated(t, out)
			assert.Contains(t, out.Escalation, "carrier-api (eu-west)")
			assert.Contains(t, out.Escalation, "calling again cannot help")
		})
	}
}

func TestSupportTicket_TooManyTurnsEndInAPartialAnswer(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, model(func(agent.Conversation) (agent.Turn, error) {
		return requests(orders.LookupOrder, lookup, carriertools.GetDeliveryStatus, parcel, carriertools.GetTrackingEvents, ""), nil
	}))
	out := e.run(t)
	assertEscalated(t, out)
	assert.False(t, out.Empty)
	assert.Contains(t, out.Text, "Your desk lamp (order EU-1) has tracking number PKG-1. It is in_transit, last seen at depot.")
	assert.Contains(t, out.Escalation, "no answer after 20 turns")
	assert.Contains(t, out.Escalation, "get_tracking_events was not called: its arguments are not valid JSON.")
}

func TestSupportTicket_UnavailableToolsAreNotOffered(t *testing.T) {
	t.Parallel()
	m := model(func(c agent.Conversation) (agent.Turn, error) {
		if len(c.Transcript) > 0 {
			return answers("Later."), nil
		}
		return requests(carriertools.GetDeliveryStatus, parcel), nil
	})
	e := newTestEnv(t, m)
	e.breakTools(unavailable(carriertools.Dependency, carrierTools...), carrierTools...)
	e.run(t)
	require.Len(t, m.asked, 2)
	assert.ElementsMatch(t, agent.Tools(), m.asked[0].Tools)
	assert.Equal(t, []string{orders.LookupOrder}, m.asked[1].Tools)
}

func TestSupportTicket_EachCallOfATurnHasItsOwnResult(t *testing.T) {
	t.Parallel()
	const elsewhere = `{"tracking_id": "PKG-2", "region": "us-east"}`
	var transcript []agent.Message
	e := newTestEnv(t, model(func(c agent.Conversation) (agent.Turn, error) {
		if transcript = c.Transcript; len(transcript) > 0 {
			return answers("Here you are."), nil
		}
		return requests(
			orders.LookupOrder, lookup,
			carriertools.GetTrackingEvents, parcel,
			"ask_model", "{}", // a model is not a tool
			"fly", `{}`,
			carriertools.GetDeliveryStatus, "",
			carriertools.GetDeliveryStatus, elsewhere,
			orders.LookupOrder, lookup,
			carriertools.GetDeliveryStatus, parcel,
			orders.LookupOrder, `{"order_id": "beyond the eighth"}`,
		), nil
	}))
	e.breakTools(unavailable(carriertools.Dependency, carrierTools...), carriertools.GetTrackingEvents)
	e.run(t)

	var outcomes []string
	for i, m := range transcript {
		outcomes = append(outcomes, m.Outcome)
		assert.NotEmpty(t, m.Text, i)
	}
	assert.Equal(t, []string{"value", "unavailable", "error", "error", "error", "value", "value", "value"}, outcomes)
	assert.Contains(t, transcript[2].Text, "There is no tool ask_model. Tools: lookup_order, ")
	assert.Contains(t, transcript[3].Text, "There is no tool fly.")
	assert.Contains(t, transcript[4].Text, "get_delivery_status was not called")
	assert.Contains(t, transcript[5].Text, "PKG-2")
	assert.Contains(t, transcript[7].Text, "PKG-1")
	assert.Equal(t, 2, e.started[agent.AskModel])
}

func TestSupportTicket_UsesTheCachedResultOfARefusedCall(t *testing.T) {
	t.Parallel()
	var e *testEnv
	var transcript []agent.Message
	e = newTestEnv(t, model(func(c agent.Conversation) (agent.Turn, error) {
		switch transcript = c.Transcript; len(transcript) {
		case 1:
			e.breakTools(unavailable(carriertools.Dependency, carrierTools...), carrierTools...)
			fallthrough
		case 0:
			return requests(carriertools.GetDeliveryStatus, parcel), nil
		}
		return answers("Here you are."), nil
	}))
	e.run(t)
	require.Len(t, transcript, 2)
	assert.Equal(t, "value", transcript[0].Outcome)
	assert.Equal(t, "degraded", transcript[1].Outcome)
	assert.True(t, strings.HasSuffix(transcript[1].Text, transcript[0].Text))
	assert.Contains(t, transcript[1].Text, "This answer is from cache of ")
}

func TestSupportTicket_TheTranscriptStaysSmall(t *testing.T) {
	t.Parallel()
	m := model(func(agent.Conversation) (agent.Turn, error) {
		return requests(
			orders.LookupOrder, `{"order_id": "`+strings.Repeat("<", 4000)+`"}`,
			orders.LookupOrder, `{"order_id": "`+strings.Repeat("<", 100_000)+`"}`,
			strings.Repeat("<", 100_000), "{}",
		), nil
	})
	assertEscalated(t, newTestEnv(t, m).run(t))
	require.NotEmpty(t, m.asked)
	for _, transcript := range m.asked[len(m.asked)-1].Transcript {
		assert.Less(t, len(transcript.Call.Tool)+len(transcript.Call.Args)+len(transcript.Text), 10_000)
		assert.NotEmpty(t, transcript.Text)
	}
}

func TestModels_TheNextModelAnswers(t *testing.T) {
	t.Parallel()
	httpError := func(typ string, final bool) error {
		return temporal.NewApplicationErrorWithOptions("no", typ, temporal.ApplicationErrorOptions{
			NonRetryable: final, NextRetryDelay: time.Hour,
		})
	}
	for name, tt := range map[string]struct {
		err    error
		starts int // of the first model, over three turns
	}{
		"its breaker is open":               {unavailable("model-first", agent.ModelActivity(0)), 1},
		"its key is bad":                    {httpError("Unauthorized", true), 1},
		"it is down":                        {temporal.NewApplicationError("no", "ServiceUnavailable"), 4},
		"it is rate-limited":                {httpError("TooManyRequests", false), 3},
		"it is rate-limited, by the plugin": {httpError(toolcall.DependencyRateLimited, false), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t,
				model(func(agent.Conversation) (agent.Turn, error) { return agent.Turn{}, tt.err }),
				model(func(c agent.Conversation) (agent.Turn, error) {
					if len(c.Transcript) == 2 {
						return answers("Here you are."), nil
					}
					return requests(orders.LookupOrder, lookup), nil
				}),
				model(func(agent.Conversation) (agent.Turn, error) { return answers("Never asked."), nil }),
			)
			out := e.run(t)
			assert.Equal(t, agent.Answer{Text: "Here you are."}, out.Answer)
			assert.Equal(t, tt.starts, e.started[agent.ModelActivity(0)])
			assert.Equal(t, 3, e.started[agent.ModelActivity(1)])
			assert.Zero(t, e.started[agent.ModelActivity(2)])
			assert.Less(t, out.Seconds, time.Hour.Seconds(), "a rate limit is not waited for while another model can answer")
		})
	}
}

func TestModels_NoneAvailableEndsInAPartialAnswer(t *testing.T) {
	t.Parallel()
	asked := 0
	e := newTestEnv(t,
		model(func(agent.Conversation) (agent.Turn, error) {
			return agent.Turn{}, unavailable("model-first", agent.ModelActivity(0))
		}),
		model(func(agent.Conversation) (agent.Turn, error) {
			if asked++; asked == 1 {
				return requests(orders.LookupOrder, lookup), nil
			}
			return agent.Turn{}, temporal.NewNonRetryableApplicationError("no", "PaymentRequired", nil)
		}),
	)
	out := e.run(t)
	assertEscalated(t, out)
	assert.Contains(t, out.Text, "PKG-1")
	for _, word := range []string{"No model was available.", "model-first", "ask_model_2 failed (PaymentRequired).", "lookup_order: {"} {
		assert.Contains(t, out.Escalation, word)
	}
}

func TestSupportTicket_WithoutModels(t *testing.T) {
	t.Parallel()
	out := newTestEnv(t).run(t)
	assertEscalated(t, out)
	assert.True(t, out.Empty)
}

func TestSupportTicket_Cancellation(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t, agent.Scripted{})
	e.env.RegisterDelayedCallback(e.env.CancelWorkflow, 0)
	e.breakTools(temporal.NewApplicationError("no", "ServiceUnavailable"), agent.Tools()...)
	e.env.ExecuteWorkflow(agent.WorkflowType, agent.Ticket{OrderID: "EU-1"})
	assert.True(t, temporal.IsCanceledError(e.env.GetWorkflowError()))
}
