// Module go.temporal.io/auto-scaled-workers stands in for the module of this name.
//
// The server uses that module to start workers on AWS, Google Cloud and Kubernetes,
// whose clients take a quarter of the server's build. The embedded server never
// starts workers. This module has the names that the server compiles with, and
// refuses every compute configuration.
module go.temporal.io/auto-scaled-workers

go 1.26.4

require (
	go.temporal.io/api v1.63.5
	go.temporal.io/server v1.32.1
	go.uber.org/fx v1.24.0
)
