// Package fleet turns what many workers observed into one verdict for all of them.
//
// Everything in this package is deterministic: it reads no wall clock, draws no
// random number and starts no goroutine, so workflows may call all of it. What
// runs in each worker process is in the package fleet/member.
//
// # From a suspicion to a verdict
//
// A [Report] carries one worker's evidence about a key. The first report starts
// the key's outage workflow. Where a worker has too few calls for a report it
// sends a [Hint] to the board, and a [HintCounter] tells when many hints are a
// suspicion.
//
// A suspicion is no verdict yet. The outage workflow puts a [Poll] on the board:
// all workers of a small fleet answer it, a random sample of a large one.
// [Decide] judges the answers by [Judge]: the dependency is down when the sum of
// all evidence trips the rule, and still does with any one worker left out.
//
// # The board
//
// The [Board] workflow holds the [Table] of all live verdicts and polls. Each
// worker process waits for its next version with one update. A starting process
// reads the table from the workflow's memo, which needs no worker to answer.
package fleet
