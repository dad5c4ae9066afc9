// Package fleet makes one verdict of what many workers saw, and brings it back
// to all of them.
//
// A [Witness] decides when a worker speaks: when its breaker trips, when its own
// window is suspicious, and when the fleet is asked. What is too faint for one
// worker is a [Whisper] to the board, and many are a suspicion. A suspicion asks
// the fleet a [Question]; [Decide] judges the answers, and [Convict] is the rule
// by which a dependency is found down: on the sum of all evidence, and with any
// one worker's left out.
//
// The [Board] workflow holds every live verdict and question; each worker process
// waits on it once, with [Watcher].
package fleet
