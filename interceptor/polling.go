package interceptor

import (
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/internal/polling"
)

// slowable lets p.polling slow the worker's polling for activities down.
//
// A worker that is quarantined gives tasks back that others can do. It does so in
// no time, and so would take more of them than all the others; slow, it leaves the
// queue to them. Its other tools are slowed with it: a poll does not say for which.
func (p *Plugin) slowable(o *worker.Options) { polling.Configure(o, &p.polling) }
