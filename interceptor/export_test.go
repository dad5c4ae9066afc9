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

// SetRandom replaces what a reporter's waits are drawn by.
func (p *Plugin) SetRandom(random func() float64) { p.reporter.witness.Random = random }

// Worker is the name by which this process reports.
func (p *Plugin) Worker() string { return p.reporter.witness.Worker }

// RunBreakers ticks the breakers and tells their transitions, until ctx is done.
func (p *Plugin) RunBreakers(ctx context.Context) { p.breakers.Run(ctx, p.config.tick()) }

// RunReporter sends evidence up, until ctx is done.
func (p *Plugin) RunReporter(ctx context.Context) { p.reporter.run(ctx) }

// PretendStarted is a start of these workers without a server. stop is called
// when the last of them is gone.
func (p *Plugin) PretendStarted(stop func(), instances ...string) {
	p.stop = stop
	for _, instance := range instances {
		p.running[instance] = true
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

// RunAlone counts who else polls, until ctx is done.
func (p *Plugin) RunAlone(ctx context.Context) { p.alone.run(ctx) }

// Quarantined tells whether this worker is alone with its trouble with a key, and
// Slow whether it polls slowly.
func (p *Plugin) Quarantined(key breaker.Key) bool { return p.alone.quarantined(key) }

func (p *Plugin) Slow() bool { return p.polling.Slow() }
