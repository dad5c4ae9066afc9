// Package workercomponent has the workflows of worker controllers: none.
package workercomponent

import "go.uber.org/fx"

// Module provides nothing.
var Module = fx.Options()
