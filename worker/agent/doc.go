// Package agent is an AI agent for support tickets, written as a Temporal workflow.
// In each turn a model decides which tools to call, and then reads the results.
//
// The workflow does not know about circuit breakers. It calls tools through package
// toolcall, whose results always hold a text for the model. A run remembers which
// tools are unavailable: it does not offer them to the model again, and it answers
// further calls of them without scheduling an activity. Where the run has an earlier
// result of the same call, that result is used instead.
//
// A [Model] is a dependency like any tool. The models of an agent are asked in
// order of preference, and the first available one answers. Each has its own
// activity type ([ModelActivity]), and so its own breaker. [Scripted] needs no
// provider. [OpenAI] uses any endpoint that serves OpenAI's chat completions API.
//
// Unless it is cancelled, a run always ends in an [Answer]. If models or tools
// fail, that is a partial answer with an escalation.
package agent
