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
	// waitForReports is how long a suspicion of the first version waited for more
	// workers' reports when the first ones did not convict.
	waitForReports = 5 * time.Second
	// askDeadline bounds how long a question may take to the board.
	askDeadline = 5 * time.Second
	// publishDeadline bounds how long the end of an outage waits for the board to
	// hear of it.
	publishDeadline = 10 * time.Second
	// maxUnasked is after how many inconclusive rounds of probes in a row the ramp
	// finds out instead.
	maxUnasked = 5
	// outageHistory is the history length past which an outage continues as new
	// even when the server does not suggest it yet.
	outageHistory = 2000
)

// changeCensus is the version marker of the suspicion that asks the fleet.
const changeCensus = "census"

// OutageInput starts an outage, or the next run of one.
type OutageInput struct {
	Settings Settings `json:"settings"`
	// Carried is set when an outage continues as new.
	Carried *Carried `json:"carried,omitempty"`
}

// Carried is what one run of an outage hands to the next.
type Carried struct {
	Epoch  int64          `json:"epoch"`
	Round  int            `json:"round"`
	Reason breaker.Reason `json:"reason"`
	Report OutageReport   `json:"report"`
	// HeldOff is until when the dependency asked to be left alone.
	HeldOff time.Time `json:"held_off,omitzero"`
	// Fleet is how many workers the fleet had when it was asked; 0: nobody knew.
	Fleet int `json:"fleet,omitempty"`
}

// OutageReport is the result of a completed outage.
type OutageReport struct {
	Key breaker.Key `json:"key"`
	// Outcome is "recovered", or "dismissed" when the reports did not convict.
	Outcome string `json:"outcome"`
	// Since is when the outage was opened, Ended when it closed.
	Since time.Time `json:"since"`
	Ended time.Time `json:"ended"`
	// Reason is why it was opened first.
	Reason string `json:"reason"`
	// Seconds is how long it stood in each state, by the state's name.
	Seconds map[string]float64 `json:"seconds"`
	// Rounds is how often it opened.
	Rounds int `json:"rounds"`
	// Probes is how many synthetic calls were made.
	Probes int `json:"probes"`
	// Workers is how many workers sent evidence.
	Workers int `json:"workers"`
}

// Status answers [StateQuery].
type Status struct {
	Verdict   breaker.Verdict `json:"verdict"`
	Reports   []fleet.Report  `json:"reports"`
	LastProbe *ProbeReport    `json:"last_probe,omitempty"`
	// Fleet is how many workers the fleet had when it was asked; 0: nobody knew.
	Fleet int `json:"fleet,omitempty"`
}

// outage is the state of one run.
type outage struct {
	Settings
	// searchable says that the namespace has the search attributes.
	searchable bool
	// signals hold the reports that have arrived and are not heard yet.
	signals workflow.ReceiveChannel
	// name is the state for people: the verdict's, or "suspected".
	name    string
	reports fleet.Reports
	verdict breaker.Verdict
	entered time.Time
	round   int
	// heldOff is until when the dependency asked to be left alone.
	heldOff time.Time
	// fleet is how many workers the fleet had when it was asked.
	fleet     int
	lastProbe *ProbeReport
	workers   map[string]bool
	report    OutageReport
}

// Outage is one incident of one key: suspected, then open, half-open and
// recovering until closed. Every one of its states is left by time alone.
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
		// Not Receive: a report that it holds is out of convict's reach.
		for workflow.Await(ctx, func() bool { return o.signals.Len() > 0 }) == nil {
			o.hear(ctx)
		}
	})

	var reason breaker.Reason
	if c := in.Carried; c != nil {
		o.verdict.Epoch, o.verdict.Since, o.round, o.report = c.Epoch, c.Report.Since, c.Round, c.Report
		o.heldOff, o.fleet = c.HeldOff, c.Fleet
		reason = c.Reason
	} else {
		var guilty bool
		if reason, guilty = o.suspected(ctx); !guilty {
			o.show(ctx, "dismissed")
			o.dismiss(ctx)
			return o.ended(ctx, "dismissed"), ctx.Err()
		}
		o.verdict.Since = workflow.Now(ctx)
		o.report.Since, o.report.Reason = o.verdict.Since, reason.String()
	}
	for {
		again, err := o.incident(ctx, reason)
		if temporal.IsCanceledError(err) {
			o.callOff(ctx)
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

// hear takes every report that has arrived.
func (o *outage) hear(ctx workflow.Context) {
	var r fleet.Report
	news := false
	for o.signals.ReceiveAsync(&r) {
		if o.reports.Add(r) {
			o.workers[r.Worker] = true
			news = true
			if until := workflow.Now(ctx).Add(min(r.HoldOff, o.Breaker.MaxCooldown)); r.HoldOff > 0 && until.After(o.heldOff) {
				o.heldOff = until
			}
		}
		r = fleet.Report{}
	}
	if news {
		workflow.SetCurrentDetails(ctx, o.markdown())
	}
}

// convict judges by every report that has arrived, also by one that came with
// the very task which ends a wait, or the whole outage: the server hands it to
// nobody else.
func (o *outage) convict(ctx workflow.Context, rule fleet.Rule, reports func() []fleet.Report) (breaker.Reason, bool) {
	o.hear(ctx)
	return fleet.Convict(rule, reports())
}

// suspected waits until the fleet has decided.
func (o *outage) suspected(ctx workflow.Context) (reason breaker.Reason, guilty bool) {
	o.show(ctx, "suspected")
	if workflow.GetVersion(ctx, changeCensus, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		_, err := workflow.AwaitWithTimeout(ctx, waitForReports, func() bool {
			reason, guilty = o.convict(ctx, o.Breaker.Judge, o.reports.All)
			return guilty
		})
		return reason, guilty && err == nil
	}
	finding, reason := o.census(ctx)
	return reason, finding == fleet.Guilty && ctx.Err() == nil
}

// census asks the fleet, and gives what it finds: [fleet.Guilty] or
// [fleet.Innocent].
func (o *outage) census(ctx workflow.Context) (fleet.Finding, breaker.Reason) {
	q := o.ask(ctx, 0)
	for {
		asked := workflow.Now(ctx)
		var finding fleet.Finding
		var reason breaker.Reason
		decided := func() bool {
			o.hear(ctx)
			finding, reason = fleet.Decide(o.Breaker, q, o.reports.All(), workflow.Now(ctx).Sub(asked))
			return finding != fleet.Undecided
		}
		for _, milestone := range fleet.Milestones(o.Breaker) {
			ok, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
				Timeout:      max(milestone-workflow.Now(ctx).Sub(asked), time.Millisecond),
				TimerOptions: workflow.TimerOptions{Summary: "census"},
			}, decided)
			if err != nil {
				return fleet.Innocent, reason
			}
			// A timer that fires is the last word until the next milestone.
			if ok || decided() {
				break
			}
		}
		switch finding {
		case fleet.Thin:
			q = o.ask(ctx, q.Wider(o.reports.All()))
		case fleet.Undecided:
			return fleet.Innocent, reason
		default:
			return finding, reason
		}
	}
}

// ask puts the question to the fleet and gives it as it was put: to one worker in
// oneIn, or as fits its size where oneIn is 0. A fleet that cannot be asked is
// judged by who has spoken.
func (o *outage) ask(ctx workflow.Context, oneIn int) fleet.Question {
	o.verdict.Epoch = o.nextEpoch(ctx)
	q := fleet.Question{
		Key: o.Key, Outage: workflow.GetInfo(ctx).WorkflowExecution.ID, Round: o.verdict.Epoch, OneIn: 1,
		Until: workflow.Now(ctx).Add(2 * o.Breaker.Window),
	}
	o.hear(ctx)
	summary := "ask the fleet"
	if oneIn > 0 {
		summary = "ask more of the fleet"
	}
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    askDeadline,
		ScheduleToCloseTimeout: 2 * askDeadline,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond},
		Summary:                summary,
	}), AskActivity, AskInput{Question: q, OneIn: oneIn, Heard: len(o.reports.All())}).Get(ctx, &q)
	if err == nil {
		o.fleet = q.Workers
	}
	return q
}

// dismiss tells everyone that nothing is down, and those who are in trouble that
// they are alone.
func (o *outage) dismiss(ctx workflow.Context) {
	if workflow.GetVersion(ctx, changeCensus, workflow.DefaultVersion, 1) == workflow.DefaultVersion || ctx.Err() != nil {
		return
	}
	o.verdict = breaker.Verdict{State: breaker.Closed, Epoch: o.nextEpoch(ctx), Outage: workflow.GetInfo(ctx).WorkflowExecution.ID}
	published := o.publish(ctx, fleet.Entry{
		Key: o.Key, Verdict: o.verdict, Dismissed: true, Alone: fleet.Alone(o.Breaker, o.reports.All()),
	})
	_, _ = workflow.AwaitWithTimeout(ctx, publishDeadline, published.IsReady)
}

// incident goes from open to closed. When the dependency goes down again on the
// very edge to closed, it gives the reason for the next incident.
func (o *outage) incident(ctx workflow.Context, reason breaker.Reason) (*breaker.Reason, error) {
	unasked := 0
	for {
		if err := o.open(ctx, reason); err != nil {
			return nil, err
		}
		finding, err := o.halfOpen(ctx)
		if err != nil {
			return nil, err
		}
		switch finding {
		case Refuted:
			o.round++
			reason = breaker.Reason{Rule: breaker.RuleProbe}
			continue
		case Inconclusive:
			// Nobody could ask, so nothing was learnt: no longer cooldown. A probe
			// that never learns anything must not keep customers out for ever: then
			// the ramp asks.
			if unasked++; unasked < maxUnasked {
				continue
			}
		}
		unasked = 0
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
	// Spread by a tenth to either side, so that keys which opened together are
	// not probed together.
	cooldown := o.Breaker.CooldownFor(o.round)
	cooldown += time.Duration(float64(cooldown) * 0.2 * (random(ctx) - 0.5))
	// What the dependency asked for only ever prolongs it.
	cooldown = max(cooldown, min(o.heldOff.Sub(workflow.Now(ctx)), o.Breaker.MaxCooldown))
	o.report.Rounds++
	o.enter(ctx, breaker.Verdict{State: breaker.Open, Reason: reason}, cooldown)
	return sleep(ctx, cooldown, "cooldown")
}

// halfOpen runs a round of probes. A dependency that has none is asked by the
// ramp instead.
func (o *outage) halfOpen(ctx workflow.Context) (Finding, error) {
	if o.Call == nil {
		return Passed, nil
	}
	o.enter(ctx, breaker.Verdict{State: breaker.HalfOpen, Reason: o.verdict.Reason},
		time.Duration(o.Breaker.ProbeSuccesses)*(o.probeTimeout()+o.Breaker.ProbeInterval))
	return o.probe(ctx, o.Breaker.ProbeSuccesses)
}

// probeTimeout is the threshold of the tool that is called: a slow probe is a
// failed one.
func (o *outage) probeTimeout() time.Duration { return o.Breaker.LatencyOf(o.Call.Activity) }

// probe runs the probe workflow as a child. It is over after its lease, whatever
// happens to it.
func (o *outage) probe(ctx workflow.Context, successes int) (Finding, error) {
	lease := time.Duration(successes) * (2*o.probeTimeout() + o.Breaker.ProbeInterval + o.Call.QueueTimeout + time.Second)
	childCtx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:               ProbeID(o.Key),
		WorkflowExecutionTimeout: lease,
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

// recovering lets traffic return by steps. It gives a reason when the calls of
// the ramp, or a probe in their stead, find the dependency down again.
func (o *outage) recovering(ctx workflow.Context) (*breaker.Reason, error) {
	o.reports.Reset()
	first := o.nextEpoch(ctx)
	convicted := func() (breaker.Reason, bool) {
		return o.convict(ctx, o.Breaker.JudgeRamp, func() []fleet.Report { return o.ramp(first) })
	}
	for step, share := range o.Breaker.Ramp {
		o.enter(ctx, breaker.Verdict{State: breaker.Recovering, Reason: o.verdict.Reason, Step: step, Share: share}, o.Breaker.RampStep)
		before := o.rampSamples(first)
		var reason breaker.Reason
		var guilty bool
		if _, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
			Timeout:      o.Breaker.RampStep,
			TimerOptions: workflow.TimerOptions{Summary: fmt.Sprintf("ramp at %d%%", share)},
		}, func() bool {
			reason, guilty = convicted()
			return guilty
		}); err != nil {
			return nil, err
		}
		if guilty {
			return &reason, nil
		}
		// A step moves on by evidence, not by silence: where the ramp's own calls
		// are too few, one synthetic call stands in for them.
		if o.Call == nil || o.rampSamples(first)-before >= o.Breaker.RampMinSamples {
			continue
		}
		finding, err := o.probe(ctx, 1)
		if err != nil {
			return nil, err
		}
		if reason, guilty = convicted(); guilty {
			return &reason, nil
		}
		if finding == Refuted {
			return &breaker.Reason{Rule: breaker.RuleProbe}, nil
		}
	}
	return nil, nil
}

// ramp gives the reports that are about the calls of this ramp.
func (o *outage) ramp(firstEpoch int64) []fleet.Report {
	var ramp []fleet.Report
	for _, r := range o.reports.All() {
		if r.State == breaker.Recovering && r.Epoch >= firstEpoch {
			ramp = append(ramp, r)
		}
	}
	return ramp
}

func (o *outage) rampSamples(firstEpoch int64) int {
	n := 0
	for _, r := range o.ramp(firstEpoch) {
		n += r.Ramp
	}
	return n
}

// callOff tells everyone that a cancelled outage is none: its last verdict would
// otherwise stand on the board, and be the first that a starting worker hears.
func (o *outage) callOff(ctx workflow.Context) {
	ctx, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	published := o.enter(ctx, breaker.Verdict{State: breaker.Closed}, 0)
	// It is over either way.
	_, _ = workflow.AwaitWithTimeout(ctx, publishDeadline, published.IsReady)
}

// closed tells everyone, and completes unless the dependency went down again in
// the meantime.
func (o *outage) closed(ctx workflow.Context) (*breaker.Reason, error) {
	o.reports.Reset()
	published := o.enter(ctx, breaker.Verdict{State: breaker.Closed}, 0)
	if _, err := workflow.AwaitWithTimeout(ctx, publishDeadline, published.IsReady); err != nil {
		return nil, err
	}
	if reason, guilty := o.convict(ctx, o.Breaker.Judge, o.reports.All); guilty {
		o.round++
		return &reason, nil
	}
	return nil, nil
}

// enter moves to the state of v, which is due to end after d, and publishes it.
func (o *outage) enter(ctx workflow.Context, v breaker.Verdict, d time.Duration) workflow.Future {
	now := workflow.Now(ctx)
	o.leave(now)
	v.Epoch, v.Since, v.Outage = o.nextEpoch(ctx), o.verdict.Since, workflow.GetInfo(ctx).WorkflowExecution.ID
	if d > 0 {
		v.Next = now.Add(d)
	}
	o.verdict, o.entered = v, now
	o.show(ctx, v.State.String())
	e := fleet.Entry{Key: o.Key, Verdict: v}
	if v.State == breaker.Recovering {
		e.OneIn = fleet.OneIn(o.fleet)
	}
	return o.publish(ctx, e)
}

// publish brings the board an entry.
func (o *outage) publish(ctx workflow.Context, e fleet.Entry) workflow.Future {
	return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    5 * time.Second,
		ScheduleToCloseTimeout: time.Minute,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumInterval: 5 * time.Second},
		Summary:                e.Verdict.State.String(),
	}), PublishActivity, e)
}

// leave counts the time in the state that ends now. Closed is none: an outage
// begins and ends there.
func (o *outage) leave(now time.Time) {
	if o.verdict.State != breaker.Closed {
		o.report.Seconds[o.verdict.State.String()] += now.Sub(o.entered).Seconds()
	}
}

// nextEpoch grows with each call over all outages of a key, also when a
// terminated outage is started anew: it is the time of day, or one more than
// the last.
func (o *outage) nextEpoch(ctx workflow.Context) int64 {
	return max(o.verdict.Epoch+1, workflow.Now(ctx).UnixMilli())
}

// show puts the state where the Temporal UI looks for it.
func (o *outage) show(ctx workflow.Context, state string) {
	o.name = state
	workflow.SetCurrentDetails(ctx, o.markdown())
	if o.searchable {
		// The only error here is an attribute set that is empty.
		_ = workflow.UpsertTypedSearchAttributes(ctx,
			temporal.NewSearchAttributeKeyKeyword(SearchDependency).ValueSet(o.Key.Dependency),
			temporal.NewSearchAttributeKeyKeyword(SearchRegion).ValueSet(o.Key.Region),
			temporal.NewSearchAttributeKeyKeyword(SearchState).ValueSet(state))
	}
}

// findSearchAttributes asks once whether the namespace has the search
// attributes: setting one that it lacks would fail the workflow task.
func (o *outage) findSearchAttributes(ctx workflow.Context) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		ScheduleToCloseTimeout: 10 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                "does the namespace have our search attributes?",
	})
	err := workflow.ExecuteActivity(ctx, SearchAttributesActivity).Get(ctx, &o.searchable)
	if err == nil && o.searchable {
		o.show(ctx, o.name)
	}
}

// continueAsNew hands over to a fresh history, with every report heard.
func (o *outage) continueAsNew(ctx workflow.Context, reason breaker.Reason) error {
	o.hear(ctx)
	o.leave(workflow.Now(ctx))
	o.report.Workers += len(o.workers)
	return workflow.NewContinueAsNewError(ctx, OutageWorkflow, OutageInput{Settings: o.Settings, Carried: &Carried{
		Epoch: o.verdict.Epoch, Round: o.round, Reason: reason, Report: o.report, HeldOff: o.heldOff, Fleet: o.fleet,
	}})
}

// random draws one number from [0, 1) and records it.
func random(ctx workflow.Context) float64 {
	stream := workflow.GetRandomStream(ctx, "toolbreaker/jitter")
	return float64(stream.Uint64()>>11) / (1 << 53)
}

func sleep(ctx workflow.Context, d time.Duration, summary string) error {
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: summary}).Get(ctx, nil)
}
