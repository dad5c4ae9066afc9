package interceptor

import (
	"context"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// What a started plugin does, without the server that starting it takes.

var (
	ActivityTypes = activityTypes
	IsTyped       = isTyped
)

// Apply takes the board's table, as the watcher does.
func (p *Plugin) Apply(t fleet.Table) { p.apply(t) }

// Settings are what an outage of key is run by.
func (p *Plugin) Settings(key breaker.Key) (probeworkflow.Settings, error) { return p.settings(key) }

// SetRandom replaces the random numbers of the reporter's delays.
func (p *Plugin) SetRandom(random func() float64) { p.sender.reporter.Random = random }

// Worker is the name by which this process reports.
func (p *Plugin) Worker() string { return p.sender.reporter.Worker }

// RunBreakers ticks the breakers and tells their transitions, until ctx is done.
func (p *Plugin) RunBreakers(ctx context.Context) { p.breakers.Run(ctx, p.config.tick()) }

// RunSender sends what is due, until ctx is done.
func (p *Plugin) RunSender(ctx context.Context) { p.sender.run(ctx) }

// PretendStarted is a start of these workers without a server. stop is called
// when the last of them is gone.
func (p *Plugin) PretendStarted(stop func(), instances ...string) {
	p.lifecycle.stop, p.lifecycle.running = stop, map[string]bool{}
	for _, instance := range instances {
		p.lifecycle.running[instance] = true
	}
}

// Tick is how often time alone is looked at.
func (c Config) Tick() time.Duration { return c.tick() }

// Completed tells the breaker of a pending call, as CompleteActivity does.
func (p *Plugin) Completed(taskToken []byte, result any, err error) {
	p.completed(string(taskToken), result, err)
}

// CompletedByID is Completed for who has no token.
func (p *Plugin) CompletedByID(workflowID, activityID string, result any, err error) {
	p.completed(pendingID(workflowID, activityID), result, err)
}

// Pending is how many keys of pending calls are held.
func (p *Plugin) Pending() int {
	p.pending.mu.Lock()
	defer p.pending.mu.Unlock()
	return len(p.pending.calls)
}

// AwaitRecovery is the activity that parks a run.
func (p *Plugin) AwaitRecovery(ctx context.Context, key breaker.Key) error {
	return p.awaitRecovery(ctx, key)
}

var (
	ParkedFor = parkedFor
	Draw      = draw
)

// SlowPolling is what a quarantine does to the plugin's workers, and its end undoes.
func (p *Plugin) SlowPolling(slow bool) { p.polling.Set(slow) }

// RunQuarantine counts the other workers, until ctx is done.
func (p *Plugin) RunQuarantine(ctx context.Context) { p.quarantine.run(ctx) }

// Quarantined tells whether this worker is quarantined for a key.
func (p *Plugin) Quarantined(key breaker.Key) bool { return p.quarantine.holds(key) }

// Slow tells whether this worker polls slowly.

func (p *Plugin) Slow() bool { return p.polling.Slow() }
