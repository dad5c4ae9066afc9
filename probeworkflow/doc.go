// Package probeworkflow has the workflows of one outage: [Outage], from suspicion
// to closed, and its child [Probe], which runs synthetic activities against the
// dependency while customers' calls are refused. The plugin of package interceptor runs
// them. Other code needs this package to find an outage, by [OutageID], and to read its
// [Status], by the query [StateQuery], or its result, an [OutageReport].
//
// If no outage workflow runs for a key, its breakers are closed. So a healthy fleet
// costs nothing, and the list of outage workflows in the Temporal UI is the
// incident log.
package probeworkflow
