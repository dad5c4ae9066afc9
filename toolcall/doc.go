// Package toolcall is what an agent's workflow uses to call tools. Each call ends in
// a [Result] that a model can read, whether the tool answered, failed, or was not
// executed because its breaker was open.
//
//	ctx = toolcall.WithRun(ctx, toolcall.Run{Tools: tools})
//	status, err := toolcall.Execute[carrier.Status](ctx, "get_delivery_status", query)
//	if err != nil {
//		return err // the run itself is over: it was cancelled
//	}
//	transcript.Add(call.ID, status.ForModel())
//
// # Rules
//
//   - An open breaker is a result, not an error. [Result.Unavailable] names what is
//     down, and [Result.ForModel] tells the model what to do without it.
//   - The activity's result type does not matter. A Result[T] carries the refusal as
//     a value. With any other type the refusal is an application error of type
//     [DependencyUnavailable], and Execute converts it.
//   - An error of the tool becomes its class and a short text. The error's own message
//     does not reach the model.
//   - Execute returns an error only when the run itself is over.
//
// # During an outage
//
// A run has four options besides going on without the tool:
//
//   - use another source: [Call].Fallback with [Instead], [Cached] or [FallbackFunc]
//   - remember the outage, so that further calls are answered inside the workflow:
//     [WithRun]
//   - leave the tools out of the next prompt: [AvailableTools]
//   - wait: [AwaitRecovery]
//
// Functions that take a workflow.Context must be called from a workflow. They are
// deterministic.
package toolcall
