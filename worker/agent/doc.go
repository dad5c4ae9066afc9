// Package agent is an AI agent for support tickets, as a Temporal workflow: a
// model decides which tools to call, reads what they say, and decides again.
//
// The workflow knows nothing of circuit breakers. It calls tools through package
// toolcall, whose results always hold something that a model can read; the run
// remembers what it was told is unavailable, so that a model that insists on a
// dead tool costs nothing, and is not offered it again. What the run has found out
// already stands in where it can.
//
// A [Model] is a dependency like any tool. Models form a ladder: the first that
// can be asked answers, and each has an activity type of its own ([Rung]) to be
// guarded by. [Scripted] needs no provider; [OpenAI] is any endpoint that speaks
// chat completions. Whatever models and tools do, short of a cancellation, a run
// ends in an [Answer]: a partial one that is escalated, if nothing better.
package agent
