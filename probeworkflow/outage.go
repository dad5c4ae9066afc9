package probeworkflow

import (
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
)

const (
	// maxInconclusive is the number of consecutive inconclusive rounds of probes after
	// which the ramp begins. The calls of the ramp then decide.
	maxInconclusive = 5
	// outageHistory is the history length past which an outage continues as new, even
	// if the server does not suggest it yet.
	outageHistory = 2000
)

// OutageInput is the input of each run of an outage.
type OutageInput struct {
	Settings Settings `json:"settings"`
	// Carried is set when an outage continues as new.
	Carried *Carried `json:"carried,omitempty"`
}

// Carried is what one run of an outage passes to the next.
type Carried struct {
	Epoch  int64          `json:"epoch"`
	Round  int            `json:"round"`
	Reason breaker.Reason `json:"reason"`
	Report OutageReport   `json:"report"`
	// HeldOff is until when the dependency wants no calls.
	HeldOff time.Time `json:"held_off,omitzero"`
	// Fleet is how many workers the last poll counted; 0: unknown.
	Fleet int `json:"fleet,omitempty"`
}

// OutageReport is the result of a completed outage.
type OutageReport struct {
	Key breaker.Key `json:"key"`
	// Outcome is "recovered", or "dismissed" when the poll found nothing down.
	Outcome string `json:"outcome"`
	// Since is when the key was opened first, Ended when the outage ended.
	Since time.Time `json:"since"`
	Ended time.Time `json:"ended"`
	// Reason is why the key was opened first.
	Reason string `json:"reason"`
	// Seconds is the time in each state, by the state's name.
	Seconds map[string]float64 `json:"seconds"`
	// Rounds is how often the key was opened.
	Rounds int `json:"rounds"`
	// Probes is how many synthetic calls were made.
	Probes int `json:"probes"`
	// Workers is how many workers sent evidence.
	Workers int `json:"workers"`
}

// Status is the result of [StateQuery].
type Status struct {
	Verdict   breaker.Verdict `json:"verdict"`
	Reports   []fleet.Report  `json:"reports"`
	LastProbe *ProbeReport    `json:"last_probe,omitempty"`
	// Fleet is how many workers the last poll counted; 0: unknown.
	Fleet int `json:"fleet,omitempty"`
}

// outage is the state of one run.
type outage struct {
	Settings
	// searchable: the namespace has the search attributes.
	searchable bool
	// signals holds the reports that are not received yet.
	signals workflow.ReceiveChannel
	// name is the state that the UI shows: the verdict's, "suspected" or "dismissed".
	name    string
	reports fleet.Reports
	verdict breaker.Verdict
	entered time.Time
	round   int
	// heldOff is until when the dependency wants no calls.
	heldOff time.Time
	// fleet is how many workers the last poll counted.
	fleet     int
	lastProbe *ProbeReport
	workers   map[string]bool
	report    OutageReport
}

// Outage is the workflow of one outage of one key: suspected, open, half-open,
// recovering, closed. Each state ends by time, even without any report.
func Outage(ctx workflow.Context, in OutageInput) (OutageReport, error) {
	o := &outage{
		Settings: in.Settings,
		signals:  workflow.GetSignalChannel(ctx, ReportSignal),
		entered:  workflow.Now(ctx),
		workers:  map[string]bool{},
		report:   OutageReport{Key: in.Settings.Key, Seconds: map[string]float64{}},
	}
	if err := workflow.SetQueryHandler(ctx, StateQuery, func() (Status, error) {
		return Status{Verdict: o.verdict, Reports: o.reports.All(), LastProbe: o.lastProbe, Fleet: o.fleet}, nil
	}); err != nil {
		return o.report, err
	}
	workflow.Go(ctx, o.findSearchAttributes)
	workflow.Go(ctx, func(ctx workflow.Context) {
		// Receive would take a report that judge needs.
		for workflow.Await(ctx, func() bool { return o.signals.Len() > 0 }) == nil {
			o.receive(ctx)
		}
	})

	var reason breaker.Reason
	if c := in.Carried; c != nil {
		o.verdict.Epoch, o.verdict.Since, o.round, o.report = c.Epoch, c.Report.Since, c.Round, c.Report
		o.heldOff, o.fleet = c.HeldOff, c.Fleet
		reason = c.Reason
	} else {
		var down bool
		if reason, down = o.suspected(ctx); !down {
			o.show(ctx, "dismissed")
			o.publishDismissed(ctx)
			return o.ended(ctx, "dismissed"), ctx.Err()
		}
		o.verdict.Since = workflow.Now(ctx)
		o.report.Since, o.report.Reason = o.verdict.Since, reason.String()
	}
	for {
		again, err := o.incident(ctx, reason)
		if temporal.IsCanceledError(err) {
			o.publishCancelled(ctx)
		}
		if err != nil {
			return o.report, err
		}
		if again == nil {
			break
		}
		reason = *again
	}
	return o.ended(ctx, "recovered"), nil
}

func (o *outage) ended(ctx workflow.Context, outcome string) OutageReport {
	o.report.Outcome, o.report.Ended = outcome, workflow.Now(ctx)
	o.report.Workers += len(o.workers)
	return o.report
}

// incident goes from open to closed. If the dependency goes down again while the
// outage closes, it returns the reason for the next incident.
func (o *outage) incident(ctx workflow.Context, reason breaker.Reason) (*breaker.Reason, error) {
	inconclusive := 0
	for {
		if err := o.open(ctx, reason); err != nil {
			return nil, err
		}
		finding, err := o.halfOpen(ctx)
		if err != nil {
			return nil, err
		}
		switch finding {
		case Failed:
			o.round++
			reason = breaker.Reason{Rule: breaker.RuleProbe}
			continue
		case Inconclusive:
			// No probe reached the dependency, so the cooldown stays the same. Such probes
			// must not keep customers' calls refused without end.
			if inconclusive++; inconclusive < maxInconclusive {
				continue
			}
		}
		inconclusive = 0
		again, err := o.recovering(ctx)
		if err != nil {
			return nil, err
		}
		if again != nil {
			o.round++
			reason = *again
			continue
		}
		return o.closed(ctx)
	}
}

// open waits for the cooldown.
func (o *outage) open(ctx workflow.Context, reason breaker.Reason) error {
	if info := workflow.GetInfo(ctx); info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > outageHistory {
		return o.continueAsNew(ctx, reason)
	}
	// Jitter of up to a tenth, so that keys that opened together are not probed
	// together.
	cooldown := o.Breaker.CooldownFor(o.round)
	cooldown += time.Duration(float64(cooldown) * 0.2 * (random(ctx) - 0.5))
	// A hold-off never shortens the cooldown.
	cooldown = max(cooldown, min(o.heldOff.Sub(workflow.Now(ctx)), o.Breaker.MaxCooldown))
	o.report.Rounds++
	o.enter(ctx, breaker.Verdict{State: breaker.Open, Reason: reason}, cooldown)
	return sleep(ctx, cooldown, "cooldown")
}

// halfOpen runs a round of probes. A dependency without a probe goes on to the ramp.
func (o *outage) halfOpen(ctx workflow.Context) (Finding, error) {
	if o.Call == nil {
		return Passed, nil
	}
	o.enter(ctx, breaker.Verdict{State: breaker.HalfOpen, Reason: o.verdict.Reason},
		time.Duration(o.Breaker.ProbeSuccesses)*(o.probeTimeout()+o.Breaker.ProbeInterval))
	return o.probe(ctx, o.Breaker.ProbeSuccesses)
}

// probeTimeout returns the latency threshold of the probe's tool, because a slow
// probe has failed.
func (o *outage) probeTimeout() time.Duration { return o.Breaker.LatencyOf(o.Call.Activity) }

// probe runs the probe workflow as a child. Its execution timeout always ends it.
func (o *outage) probe(ctx workflow.Context, successes int) (Finding, error) {
	timeout := time.Duration(successes) * (2*o.probeTimeout() + o.Breaker.ProbeInterval + o.Call.QueueTimeout + time.Second)
	childCtx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:               ProbeID(o.Key),
		WorkflowExecutionTimeout: timeout,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		ParentClosePolicy:        enums.PARENT_CLOSE_POLICY_TERMINATE,
		StaticSummary:            "Synthetic calls to " + o.Key.String(),
	})
	var report ProbeReport
	err := workflow.ExecuteChildWorkflow(childCtx, ProbeWorkflow, ProbeInput{
		Key: o.Key, Call: *o.Call, Successes: successes,
		Timeout: o.probeTimeout(), Interval: o.Breaker.ProbeInterval,
	}).Get(ctx, &report)
	if ctx.Err() != nil {
		return Inconclusive, ctx.Err()
	}
	if err != nil {
		report = ProbeReport{Finding: Inconclusive}
	}
	o.report.Probes += len(report.Calls)
	o.lastProbe = &report
	return report.Finding, nil
}

// recovering lets traffic return in steps. It returns a reason if the dependency is
// down again, by the calls of the ramp or by a probe.
func (o *outage) recovering(ctx workflow.Context) (*breaker.Reason, error) {
	o.reports.Reset()
	first := o.nextEpoch(ctx)
	isDown := func() (breaker.Reason, bool) {
		return o.judge(ctx, o.Breaker.JudgeRamp, func() []fleet.Report { return o.ramp(first) })
	}
	for step, share := range o.Breaker.Ramp {
		o.enter(ctx, breaker.Verdict{State: breaker.Recovering, Reason: o.verdict.Reason, Step: step, Share: share}, o.Breaker.RampStep)
		before := o.rampSamples(first)
		var reason breaker.Reason
		var down bool
		if _, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
			Timeout:      o.Breaker.RampStep,
			TimerOptions: workflow.TimerOptions{Summary: fmt.Sprintf("ramp at %d%%", share)},
		}, func() bool {
			reason, down = isDown()
			return down
		}); err != nil {
			return nil, err
		}
		if down {
			return &reason, nil
		}
		// A step needs evidence. If the ramp has too few calls, one synthetic call
		// provides it.
		if o.Call == nil || o.rampSamples(first)-before >= o.Breaker.RampMinSamples {
			continue
		}
		finding, err := o.probe(ctx, 1)
		if err != nil {
			return nil, err
		}
		if reason, down = isDown(); down {
			return &reason, nil
		}
		if finding == Failed {
			return &breaker.Reason{Rule: breaker.RuleProbe}, nil
		}
	}
	return nil, nil
}

// ramp returns the reports about the calls of this ramp.
func (o *outage) ramp(firstEpoch int64) []fleet.Report {
	var ramp []fleet.Report
	for _, r := range o.reports.All() {
		if r.State == breaker.Recovering && r.Epoch >= firstEpoch {
			ramp = append(ramp, r)
		}
	}
	return ramp
}

// rampSamples returns how many calls of this ramp have ended.
func (o *outage) rampSamples(firstEpoch int64) int {
	n := 0
	for _, r := range o.ramp(firstEpoch) {
		n += r.Ramp
	}
	return n
}

// closed publishes the end of the outage. It returns a reason if the dependency has
// gone down again meanwhile.
func (o *outage) closed(ctx workflow.Context) (*breaker.Reason, error) {
	o.reports.Reset()
	published := o.enter(ctx, breaker.Verdict{State: breaker.Closed}, 0)
	if _, err := workflow.AwaitWithTimeout(ctx, publishDeadline, published.IsReady); err != nil {
		return nil, err
	}
	if reason, down := o.judge(ctx, o.Breaker.Judge, o.reports.All); down {
		o.round++
		return &reason, nil
	}
	return nil, nil
}

// leave adds the time in the state that ends now to the report. Closed does not
// count, because the outage begins and ends there.
func (o *outage) leave(now time.Time) {
	if o.verdict.State != breaker.Closed {
		o.report.Seconds[o.verdict.State.String()] += now.Sub(o.entered).Seconds()
	}
}

// continueAsNew starts the next run. It first receives every report that has
// arrived.
func (o *outage) continueAsNew(ctx workflow.Context, reason breaker.Reason) error {
	o.receive(ctx)
	o.leave(workflow.Now(ctx))
	o.report.Workers += len(o.workers)
	return workflow.NewContinueAsNewError(ctx, OutageWorkflow, OutageInput{Settings: o.Settings, Carried: &Carried{
		Epoch: o.verdict.Epoch, Round: o.round, Reason: reason, Report: o.report, HeldOff: o.heldOff, Fleet: o.fleet,
	}})
}

// random returns a number in [0, 1) that is the same in a replay.
func random(ctx workflow.Context) float64 {
	stream := workflow.GetRandomStream(ctx, "toolbreaker/jitter")
	return float64(stream.Uint64()>>11) / (1 << 53)
}

func sleep(ctx workflow.Context, d time.Duration, summary string) error {
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: summary}).Get(ctx, nil)
}
