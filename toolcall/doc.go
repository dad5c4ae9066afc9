// Package toolcall is what an agent workflow uses to call tools: one call that
// always ends in something a model can read.
//
//	ctx = toolcall.WithRun(ctx, toolcall.Run{Tools: tools})
//	status, err := toolcall.Execute[carrier.Status](ctx, "get_delivery_status", query)
//	if err != nil {
//		return err // the run itself is over: it was cancelled
//	}
//	transcript.Add(call.ID, status.ForModel())
//
// An open breaker is a result here, not an exception: [Result.Unavailable] says
// what is down and [Result.ForModel] tells the model what to do without it. It
// does not matter whether the activity's own type is [Result], and the refusal
// came as its value, or a plain type, and the refusal came as an error of type
// [DependencyUnavailable].
//
// What a run can do about an outage: have another source answer ([Call], with
// [Instead], [Cached] or [FallbackFunc]), remember it ([WithRun]), leave the tools
// out of the next prompt ([OnOffer]), or wait ([AwaitRecovery]).
package toolcall
