// Package probeworkflow has the workflows of one outage: [Outage], from suspicion
// to closed, and its child [Probe], which runs synthetic activities against the
// dependency while customers' calls are refused.
//
// If no outage workflow runs for a key, its breakers are closed. So a healthy fleet
// costs nothing, and the list of outage workflows in the Temporal UI is the
// incident log.
package probeworkflow
