// Package agent is an AI agent for support tickets, as a Temporal workflow: a
// model decides which tools to call, reads what they say, and decides again.
//
// The workflow knows nothing of circuit breakers. It calls tools through
// toolcall.Execute, whose result always holds something that a model can read.
package agent
