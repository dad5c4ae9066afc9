package interceptor

import (
	"context"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// Parts of a plugin, for tests without a server.

var (
	ActivityTypes = activityTypes
	IsTyped       = isTyped
)

// Apply applies the board's table, like the watcher.
func (p *Plugin) Apply(t fleet.Table) { p.apply(t) }

// Settings returns the settings of the outage workflow of key.
func (p *Plugin) Settings(key breaker.Key) (probeworkflow.Settings, error) { return p.settings(key) }

// SetRandom replaces the random numbers of the reporter's delays.
func (p *Plugin) SetRandom(random func() float64) { p.sender.reporter.Random = random }

// Worker returns the name of this process in reports.
func (p *Plugin) Worker() string { return p.sender.reporter.Worker }

// RunBreakers ticks the breakers and delivers their transitions, until ctx is done.
func (p *Plugin) RunBreakers(ctx context.Context) { p.breakers.Run(ctx, p.config.tick()) }

// RunSender sends what is due, until ctx is done.
func (p *Plugin) RunSender(ctx context.Context) { p.sender.run(ctx) }

// PretendStarted makes the plugin believe that these workers have started. stop is
// called after the last of them stops.
func (p *Plugin) PretendStarted(stop func(), instances ...string) {
	p.lifecycle.stop, p.lifecycle.running = stop, map[string]bool{}
	for _, instance := range instances {
		p.lifecycle.running[instance] = true
	}
}

// Tick returns the interval of the breakers' ticks.
func (c Config) Tick() time.Duration { return c.tick() }

// Completed gives the outcome of a pending call to the breaker, like CompleteActivity.
func (p *Plugin) Completed(taskToken []byte, result any, err error) {
	p.completed(string(taskToken), result, err)
}

// CompletedByID is Completed by ID.
func (p *Plugin) CompletedByID(workflowID, activityID string, result any, err error) {
	p.completed(pendingID(workflowID, activityID), result, err)
}

// Pending returns the number of keys of pending calls.
func (p *Plugin) Pending() int {
	p.pending.mu.Lock()
	defer p.pending.mu.Unlock()
	return len(p.pending.calls)
}

// AwaitRecovery is the activity of a run that waits.
func (p *Plugin) AwaitRecovery(ctx context.Context, key breaker.Key) error {
	return p.awaitRecovery(ctx, key)
}

var (
	NextCheck = nextCheck
	RampPlace = rampPlace
)

// SlowPolling begins or ends slow polling, like a quarantine.
func (p *Plugin) SlowPolling(slow bool) { p.polling.Set(slow) }

// RunQuarantine counts the other workers, until ctx is done.
func (p *Plugin) RunQuarantine(ctx context.Context) { p.quarantine.run(ctx) }

// Quarantined reports whether this worker is quarantined for a key.
func (p *Plugin) Quarantined(key breaker.Key) bool { return p.quarantine.active(key) }

// Slow reports whether this worker polls slowly.

func (p *Plugin) Slow() bool { return p.polling.Slow() }
