package interceptor

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// dependency is a configured dependency with its defaults set.
type dependency struct {
	Dependency
	defaultRegion string
	closed        closedRegions
}

func newDependency(d Dependency, region string) *dependency {
	d.Breaker = d.Breaker.WithDefaults()
	d.Breaker.NoProbe = d.Probe.none
	if region == "" {
		region = "default"
	}
	return &dependency{Dependency: d, defaultRegion: region}
}

// classify returns how the end of a call counts.
func (d *dependency) classify(ctx context.Context, result any, err error) breaker.Outcome {
	// A call that is completed asynchronously has no outcome yet.
	if d.Classify != nil && ctx.Err() == nil && !errors.Is(err, activity.ErrResultPending) {
		if outcome, ok := d.callClassifier(result, err); ok {
			return outcome
		}
	}
	if d.Breaker.FailOnRateLimit && ctx.Err() == nil && rateLimited(err) {
		return breaker.Failure
	}
	return Classify(ctx, result, err)
}

// callClassifier calls the user's classifier. If that panics the outcome is Ignored, and
// the tool's result is unchanged.
func (d *dependency) callClassifier(result any, err error) (outcome breaker.Outcome, ok bool) {
	defer func() {
		if recover() != nil {
			outcome, ok = breaker.Ignored, true
		}
	}()
	return d.Classify(result, err)
}

// region returns the region of a call with these arguments.
func (d *dependency) region(args []any) string {
	if d.Region != nil {
		if r := d.Region(args); breaker.ValidateName(r) == nil {
			return r
		}
	}
	return d.defaultRegion
}

// dependency returns a configured dependency by name.
func (p *Plugin) dependency(name string) (*dependency, bool) {
	for _, d := range p.dependencies {
		if d.Name == name {
			return d, true
		}
	}
	return nil, false
}

// breaker returns the breaker of a call to d with these arguments.
func (p *Plugin) breaker(d *dependency, args []any) *breaker.Breaker {
	return p.breakers.Get(breaker.Key{Dependency: d.Name, Region: d.region(args)}, d.Breaker)
}

func (p *Plugin) snapshot(key breaker.Key) (breaker.Snapshot, bool) {
	b, ok := p.breakers.Find(key)
	if !ok {
		return breaker.Snapshot{}, false
	}
	return b.Snapshot(), true
}

// settings returns the settings for a key's outage workflow.
func (p *Plugin) settings(key breaker.Key) (probeworkflow.Settings, error) {
	d, ok := p.dependency(key.Dependency)
	if !ok {
		return probeworkflow.Settings{}, fmt.Errorf("no dependency %q is configured", key.Dependency)
	}
	s := probeworkflow.Settings{Key: key, Breaker: d.Breaker}
	if d.Probe.none {
		return s, nil
	}
	args, err := probeworkflow.EncodeArgs(p.config.DataConverter, d.Probe.args(key.Region))
	if err != nil {
		return s, fmt.Errorf("encoding the probe's arguments of %s: %w", key, err)
	}
	s.Call = &probeworkflow.Call{
		Activity: d.Probe.activity, Args: args, TaskQueue: p.registrations.taskQueue(d.Probe.activity),
		QueueTimeout: max(d.Breaker.Cooldown, 2*d.Breaker.Latency),
	}
	return s, nil
}
