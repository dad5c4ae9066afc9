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

// modelFunc is a model of one function. It keeps what it was asked.
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

func wants(namesAndArguments ...string) agent.Turn {
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

func ends(text string) agent.Turn { return agent.Turn{Answer: &agent.Answer{Text: text}} }

// office is a run's surroundings: tools that answer, but for those that are
// broken.
type office struct {
	env *testsuite.TestWorkflowEnvironment

	mu sync.Mutex
	// started counts attempts by activity type.
	started map[string]int
	broken  map[string]error
}

func openOffice(t *testing.T, models ...agent.Model) *office {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	o := &office{env: suite.NewTestWorkflowEnvironment(), started: map[string]int{}, broken: map[string]error{}}
	o.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.started[info.ActivityType.Name]++
	})
	agent.Register(o.env, models...)
	tool(o, orders.LookupOrder, func(q orders.Query) orders.Order {
		return orders.Order{ID: q.OrderID, Item: "desk lamp", TrackingID: "PKG-1", Region: carriertools.RegionEUWest}
	})
	tool(o, carriertools.GetDeliveryStatus, func(q carriertools.Query) carriertools.Status {
		return carriertools.Status{TrackingID: q.TrackingID, State: "in_transit", LastLocation: "depot"}
	})
	tool(o, carriertools.GetTrackingEvents, func(q carriertools.Query) carriertools.Events {
		return carriertools.Events{TrackingID: q.TrackingID}
	})
	tool(o, carriertools.CreateReturnLabel, func(q carriertools.Query) carriertools.Label {
		return carriertools.Label{ID: "LBL-1", TrackingID: q.TrackingID}
	})
	return o
}

func tool[Q, A any](o *office, name string, answer func(Q) A) {
	o.env.RegisterActivityWithOptions(func(_ context.Context, q Q) (a A, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if err := o.broken[name]; err != nil {
			return a, err
		}
		return answer(q), nil
	}, activity.RegisterOptions{Name: name})
}

func (o *office) breakTools(err error, names ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range names {
		o.broken[name] = err
	}
}

func (o *office) run(t *testing.T) agent.Outcome {
	t.Helper()
	o.env.ExecuteWorkflow(agent.WorkflowType, agent.Ticket{ID: "1", OrderID: "EU-1", Question: "Where is my parcel?"})
	require.True(t, o.env.IsWorkflowCompleted())
	require.NoError(t, o.env.GetWorkflowError())
	var out agent.Outcome
	require.NoError(t, o.env.GetWorkflowResult(&out))
	return out
}

var carrierTools = []string{carriertools.GetDeliveryStatus, carriertools.GetTrackingEvents, carriertools.CreateReturnLabel}

// unavailable is how the plugin ends an activity whose breaker is open.
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
	o := openOffice(t, agent.Scripted{})
	out := o.run(t)
	assert.Equal(t, agent.Answer{Text: "Your desk lamp is in_transit, last seen at depot."}, out.Answer)
	assert.Equal(t, 3, out.ToolCalls)
	assert.Zero(t, out.Unavailable)
}

// The model insists: whatever it reads, it calls the dead tool again.
func TestSupportTicket_AModelThatInsistsOnADeadTool(t *testing.T) {
	t.Parallel()
	const insists = 10
	insist := wants(carriertools.GetDeliveryStatus, parcel)
	for name, m := range map[string]agent.Model{
		"for ever": model(func(agent.Conversation) (agent.Turn, error) { return insist, nil }),
		"several times in a turn": model(func(agent.Conversation) (agent.Turn, error) {
			return agent.Turn{Calls: []agent.Call{insist.Calls[0], insist.Calls[0], insist.Calls[0]}}, nil
		}),
		"with other words each time": model(func(c agent.Conversation) (agent.Turn, error) {
			return wants(carriertools.GetDeliveryStatus, fmt.Sprintf(`{"tracking_id": "PKG-%d", "region": "eu-west"}`, len(c.Transcript))), nil
		}),
		"without a region": model(func(agent.Conversation) (agent.Turn, error) {
			return wants(carriertools.GetDeliveryStatus, `{"tracking_id": "PKG-1"}`), nil
		}),
		"by another tool of the same dependency": model(func(c agent.Conversation) (agent.Turn, error) {
			return wants(carrierTools[len(c.Transcript)%len(carrierTools)], parcel), nil
		}),
		"ten times, over an API": provide(t, func(w http.ResponseWriter, _ *http.Request, n int) {
			if n > insists {
				says(w, plain("I could not find your parcel."))
				return
			}
			says(w, calls(carriertools.GetDeliveryStatus, parcel))
		}).model("m"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openOffice(t, m)
			o.breakTools(unavailable(carriertools.Dependency, carrierTools...), carrierTools...)
			out := o.run(t)
			scheduled := 0
			for _, tool := range carrierTools {
				scheduled += o.started[tool]
			}
			assert.LessOrEqual(t, scheduled, 1)
			assert.GreaterOrEqual(t, out.Unavailable, insists, "each was answered all the same")
			assertEscalated(t, out)
			assert.Contains(t, out.Escalation, "carrier-api (eu-west)")
			assert.Contains(t, out.Escalation, "calling again cannot help")
		})
	}
}

func TestSupportTicket_AnUnfinishedRunSaysWhatItHas(t *testing.T) {
	t.Parallel()
	o := openOffice(t, model(func(agent.Conversation) (agent.Turn, error) {
		return wants(orders.LookupOrder, lookup, carriertools.GetDeliveryStatus, parcel, carriertools.GetTrackingEvents, ""), nil
	}))
	out := o.run(t)
	assertEscalated(t, out)
	assert.False(t, out.Empty)
	assert.Contains(t, out.Text, "Your desk lamp (order EU-1) has tracking number PKG-1. It is in_transit, last seen at depot.")
	assert.Contains(t, out.Escalation, "no answer after 20 turns")
	assert.Contains(t, out.Escalation, "get_tracking_events was not called: its arguments are not valid JSON.")
}

func TestSupportTicket_DeadToolsAreNotOfferedAgain(t *testing.T) {
	t.Parallel()
	m := model(func(c agent.Conversation) (agent.Turn, error) {
		if len(c.Transcript) > 0 {
			return ends("Later."), nil
		}
		return wants(carriertools.GetDeliveryStatus, parcel), nil
	})
	o := openOffice(t, m)
	o.breakTools(unavailable(carriertools.Dependency, carrierTools...), carrierTools...)
	o.run(t)
	require.Len(t, m.asked, 2)
	assert.ElementsMatch(t, agent.Tools(), m.asked[0].Tools)
	assert.Equal(t, []string{orders.LookupOrder}, m.asked[1].Tools)
}

func TestSupportTicket_EachCallOfATurnHasATextOfItsOwn(t *testing.T) {
	t.Parallel()
	const elsewhere = `{"tracking_id": "PKG-2", "region": "us-east"}`
	var said []agent.Message
	o := openOffice(t, model(func(c agent.Conversation) (agent.Turn, error) {
		if said = c.Transcript; len(said) > 0 {
			return ends("Here you are."), nil
		}
		return wants(
			orders.LookupOrder, lookup,
			carriertools.GetTrackingEvents, parcel,
			"ask_model", "{}", // a model is no tool
			"fly", `{}`,
			carriertools.GetDeliveryStatus, "",
			carriertools.GetDeliveryStatus, elsewhere,
			orders.LookupOrder, lookup,
			carriertools.GetDeliveryStatus, parcel,
			orders.LookupOrder, `{"order_id": "beyond the eighth"}`,
		), nil
	}))
	o.breakTools(unavailable(carriertools.Dependency, carrierTools...), carriertools.GetTrackingEvents)
	o.run(t)

	var outcomes []string
	for i, m := range said {
		outcomes = append(outcomes, m.Outcome)
		assert.NotEmpty(t, m.Text, i)
	}
	assert.Equal(t, []string{"value", "unavailable", "error", "error", "error", "value", "value", "value"}, outcomes)
	assert.Contains(t, said[2].Text, "There is no tool ask_model. Tools: lookup_order, ")
	assert.Contains(t, said[3].Text, "There is no tool fly.")
	assert.Contains(t, said[4].Text, "get_delivery_status was not called")
	assert.Contains(t, said[5].Text, "PKG-2")
	assert.Contains(t, said[7].Text, "PKG-1")
	assert.Equal(t, 2, o.started[agent.AskModel])
}

func TestSupportTicket_WhatARunHasFoundOutStandsIn(t *testing.T) {
	t.Parallel()
	var o *office
	var said []agent.Message
	o = openOffice(t, model(func(c agent.Conversation) (agent.Turn, error) {
		switch said = c.Transcript; len(said) {
		case 1:
			o.breakTools(unavailable(carriertools.Dependency, carrierTools...), carrierTools...)
			fallthrough
		case 0:
			return wants(carriertools.GetDeliveryStatus, parcel), nil
		}
		return ends("Here you are."), nil
	}))
	o.run(t)
	require.Len(t, said, 2)
	assert.Equal(t, "value", said[0].Outcome)
	assert.Equal(t, "degraded", said[1].Outcome)
	assert.True(t, strings.HasSuffix(said[1].Text, said[0].Text))
	assert.Contains(t, said[1].Text, "this is from cache of ")
}

func TestSupportTicket_TheTranscriptStaysSmall(t *testing.T) {
	t.Parallel()
	m := model(func(agent.Conversation) (agent.Turn, error) {
		return wants(
			orders.LookupOrder, `{"order_id": "`+strings.Repeat("<", 4000)+`"}`,
			orders.LookupOrder, `{"order_id": "`+strings.Repeat("<", 100_000)+`"}`,
			strings.Repeat("<", 100_000), "{}",
		), nil
	})
	assertEscalated(t, openOffice(t, m).run(t))
	require.NotEmpty(t, m.asked)
	for _, said := range m.asked[len(m.asked)-1].Transcript {
		assert.Less(t, len(said.Call.Tool)+len(said.Call.Args)+len(said.Text), 10_000)
		assert.NotEmpty(t, said.Text)
	}
}

func TestLadder_TheNextRungAnswers(t *testing.T) {
	t.Parallel()
	httpError := func(typ string, final bool) error {
		return temporal.NewApplicationErrorWithOptions("no", typ, temporal.ApplicationErrorOptions{
			NonRetryable: final, NextRetryDelay: time.Hour,
		})
	}
	for name, tt := range map[string]struct {
		err    error
		starts int // of the first rung, over three turns
	}{
		"its breaker is open":        {unavailable("model-first", agent.Rung(0)), 1},
		"its key is bad":             {httpError("Unauthorized", true), 1},
		"it is down":                 {temporal.NewApplicationError("no", "ServiceUnavailable"), 4},
		"it is rate-limited":         {httpError("TooManyRequests", false), 3},
		"it is rate-limited, worded": {httpError(toolcall.DependencyRateLimited, false), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openOffice(t,
				model(func(agent.Conversation) (agent.Turn, error) { return agent.Turn{}, tt.err }),
				model(func(c agent.Conversation) (agent.Turn, error) {
					if len(c.Transcript) == 2 {
						return ends("Here you are."), nil
					}
					return wants(orders.LookupOrder, lookup), nil
				}),
				model(func(agent.Conversation) (agent.Turn, error) { return ends("Nobody asks me."), nil }),
			)
			out := o.run(t)
			assert.Equal(t, agent.Answer{Text: "Here you are."}, out.Answer)
			assert.Equal(t, tt.starts, o.started[agent.Rung(0)])
			assert.Equal(t, 3, o.started[agent.Rung(1)])
			assert.Zero(t, o.started[agent.Rung(2)])
			assert.Less(t, out.Seconds, time.Hour.Seconds(), "nobody waits for a rate limit while another can answer")
		})
	}
}

func TestLadder_WithNobodyToAskTheRunEndsWithWhatItHas(t *testing.T) {
	t.Parallel()
	asked := 0
	o := openOffice(t,
		model(func(agent.Conversation) (agent.Turn, error) {
			return agent.Turn{}, unavailable("model-first", agent.Rung(0))
		}),
		model(func(agent.Conversation) (agent.Turn, error) {
			if asked++; asked == 1 {
				return wants(orders.LookupOrder, lookup), nil
			}
			return agent.Turn{}, temporal.NewNonRetryableApplicationError("no", "PaymentRequired", nil)
		}),
	)
	out := o.run(t)
	assertEscalated(t, out)
	assert.Contains(t, out.Text, "PKG-1")
	for _, word := range []string{"No model could be asked.", "model-first", "ask_model_2 failed (PaymentRequired).", "lookup_order: {"} {
		assert.Contains(t, out.Escalation, word)
	}
}

func TestSupportTicket_WithoutAModelAtAllItSaysSo(t *testing.T) {
	t.Parallel()
	out := openOffice(t).run(t)
	assertEscalated(t, out)
	assert.True(t, out.Empty)
}

func TestSupportTicket_CancelledIsCancelled(t *testing.T) {
	t.Parallel()
	o := openOffice(t, agent.Scripted{})
	o.env.RegisterDelayedCallback(o.env.CancelWorkflow, 0)
	o.breakTools(temporal.NewApplicationError("no", "ServiceUnavailable"), agent.Tools()...)
	o.env.ExecuteWorkflow(agent.WorkflowType, agent.Ticket{OrderID: "EU-1"})
	assert.True(t, temporal.IsCanceledError(o.env.GetWorkflowError()))
}
