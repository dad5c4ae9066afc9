package demo

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	sdkinterceptor "go.temporal.io/sdk/interceptor"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/worker/app"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
)

const (
	// ReportFile and TimelineFile are written to Options.Dir.
	ReportFile   = "demo-report.json"
	TimelineFile = "demo-timeline.svg"
)

var carrierKey = breaker.Key{Dependency: carriertools.Dependency, Region: region}

// faults are the faults that open a breaker.
var faults = []carrier.FaultKind{carrier.Hang, carrier.Slow, carrier.Error, carrier.Flaky, carrier.Lying}

// Options configure a demo.
type Options struct {
	// Fault is the carrier's fault. Empty: hang.
	Fault carrier.FaultKind
	// Dir is the directory for the report and the picture. Empty: the working directory.
	Dir string
	// Out receives the progress. Terminal tells that it is a terminal, which shows live
	// status.
	Out      io.Writer
	Terminal bool
}

// Run runs the four phases on a, which must not have a worker yet. It leaves a worker
// with the breaker running. The caller must call stop, also after an error.
func Run(ctx context.Context, a *app.App, o Options) (report Report, stop func(), err error) {
	if o.Fault == "" {
		o.Fault = carrier.Hang
	}
	stop = func() {}
	if !slices.Contains(faults, o.Fault) {
		return report, stop, fmt.Errorf("fault %q does not open a breaker: use one of %v", o.Fault, faults)
	}
	s := newScenario(a)
	show := newDisplay(o.Out, o.Terminal, s)
	defer show.close()

	if a.Options.Speed != 1 {
		show.line(fmt.Sprintf("At speed %g, one second of real time is %g simulated seconds. The breaker's reasons are in real time.", a.Options.Speed, a.Options.Speed))
	}
	start := func(unprotected bool) error {
		stop()
		stop = func() {}
		w, err := a.StartWorker(app.WorkerOptions{
			Unprotected: unprotected, OnTransition: s.onTransition,
			Interceptors: []sdkinterceptor.WorkerInterceptor{s.failedCalls},
		})
		if err == nil {
			stop = w.Stop
			show.watch(w.Plugin)
		}
		return err
	}
	setFault := func(kind carrier.FaultKind) (time.Time, error) {
		return time.Now(), a.Carrier.SetFault(region, carrier.Fault{Kind: kind, Share: flakyShare(kind)})
	}

	show.phase("1/4 healthy", "Support agents answer tickets. The carrier is healthy.")
	if err := start(false); err != nil {
		return report, stop, err
	}
	healthyStart := time.Now()
	end := s.traffic(ctx)
	err = s.pause(ctx, 30*time.Second)
	end()
	if err != nil {
		return report, stop, err
	}

	show.phase("2/4 outage, no breaker", fmt.Sprintf("The carrier gets the fault %s. Calls fail, Temporal retries them, and the model calls the tool again.", o.Fault))
	if err := start(true); err != nil {
		return report, stop, err
	}
	unprotectedStart, end := time.Now(), s.traffic(ctx)
	err = s.pause(ctx, 10*time.Second)
	if err == nil {
		_, err = setFault(o.Fault)
	}
	if err == nil {
		err = s.pause(ctx, 20*time.Second)
	}
	end()
	if err != nil {
		return report, stop, err
	}
	if _, err = setFault(carrier.Healthy); err != nil {
		return report, stop, err
	}

	show.phase("3/4 outage, with breaker", "The carrier gets the same fault. The breaker opens, and the agents continue without the carrier.")
	if err := start(false); err != nil {
		return report, stop, err
	}
	protectedStart, end := time.Now(), s.traffic(ctx)
	faulted, opened, err := func() (faulted time.Time, opened breaker.Transition, err error) {
		// Until the number of running runs is steady.
		if err = s.pause(ctx, 25*time.Second); err != nil {
			return
		}
		if faulted, err = setFault(o.Fault); err != nil {
			return
		}
		if opened, err = s.await(ctx, breaker.Open, faulted, 5*time.Minute); err != nil {
			return
		}
		return faulted, opened, s.pause(ctx, 60*time.Second)
	}()
	if err != nil {
		end()
		return report, stop, err
	}

	show.phase("4/4 recovery", "The carrier is repaired. The breaker detects it by probes.")
	repaired, err := setFault(carrier.Healthy)
	var closed breaker.Transition
	if err == nil {
		closed, err = s.await(ctx, breaker.Closed, repaired, 15*time.Minute)
	}
	if err == nil {
		err = s.pause(ctx, 15*time.Second)
	}
	recovered := time.Now()
	end()
	if err == nil {
		err = s.err
	}
	if err != nil {
		return report, stop, err
	}

	calls := a.Carrier.Calls()
	report = Report{
		Speed: a.Options.Speed, Fault: string(o.Fault),
		Healthy:     s.phase(healthyStart, unprotectedStart, calls),
		Unprotected: s.phase(unprotectedStart, protectedStart, calls),
		Protected:   s.phase(protectedStart, repaired, calls),
		Recovery:    s.phase(repaired, recovered, calls),
		Breaker: Breaker{
			LatencyThresholdSeconds: s.seconds(a.BreakerConfig().WithDefaults().Latency),
			FaultToOpenSeconds:      s.seconds(opened.At.Sub(faulted)),
			RepairToClosedSeconds:   s.seconds(closed.At.Sub(repaired)),
		},
	}
	for _, phase := range []*Phase{&report.Healthy, &report.Unprotected, &report.Protected, &report.Recovery} {
		phase.compareTo(report.Healthy)
	}
	for _, t := range s.transitions {
		report.Breaker.Transitions = append(report.Breaker.Transitions, Transition{
			AtSeconds: s.seconds(t.At.Sub(faulted)), From: t.From.String(), To: t.To.String(), Reason: t.Reason.String(),
		})
	}
	show.close()
	show.table(report)
	if err := report.write(filepath.Join(o.Dir, ReportFile)); err != nil {
		return report, stop, err
	}
	err = timeline{scenario: s, calls: calls, phases: []phaseSpan{
		{"healthy", healthyStart, unprotectedStart},
		{"outage, no breaker", unprotectedStart, protectedStart},
		{"outage, with breaker", protectedStart, repaired},
		{"recovery", repaired, recovered},
	}}.write(filepath.Join(o.Dir, TimelineFile))
	return report, stop, err
}

// flakyShare returns the share of calls that a flaky carrier fails.
func flakyShare(kind carrier.FaultKind) float64 {
	if kind == carrier.Flaky {
		return 0.8
	}
	return 0
}
