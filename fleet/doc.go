// Package fleet combines the evidence of many workers into one verdict for all of
// them. Workers with the plugin of package interceptor use it; other code needs it only
// to read reports and verdicts, or to judge evidence of its own:
//
//	reason, down := fleet.Judge(config.Judge, reports)
//
// Everything in this package is deterministic: it reads no wall clock, draws no
// random number and starts no goroutine. So workflows may call all of it. Package
// fleet/member holds what runs in each worker process.
//
// # From a suspicion to a verdict
//
// A [Report] carries one worker's evidence about a key. The first report starts the
// key's outage workflow. A worker with too few calls for a report sends a [Hint] to
// the board. A [HintCounter] decides when the hints are a suspicion.
//
// A suspicion is not a verdict. The outage workflow puts a [Poll] on the board. All
// workers of a small fleet answer it; of a large fleet, a random sample answers.
// [Decide] judges the answers by [Judge]: the dependency is down when the sum of
// all evidence trips the rule, and still does without any one worker.
//
// # The board
//
// The [Board] workflow holds the [Table] of all live verdicts and polls. Each
// worker process waits for its next version with one update. A starting process
// reads the table from the workflow's memo, which needs no running worker.
package fleet
