// Package fleet makes one verdict of what many workers saw, and brings it back
// to all of them.
//
// Workers send a [Report] only when they have seen trouble. [Convict] is the
// pure judgement over the reports. The [Board] workflow holds every live
// verdict; each worker process waits on it once, with [Watcher].
package fleet
