// Package probeworkflow holds the workflows of one outage: [Outage], from
// suspicion to closed, and its child [Probe], which runs synthetic activities
// against the dependency while no customer's call may touch it.
//
// No running outage workflow means closed: a healthy fleet costs nothing, and
// the list of outage workflows in the Temporal UI is the incident log.
package probeworkflow
