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
	// ReportFile and TimelineFile are written into Options.Dir.
	ReportFile   = "demo-report.json"
	TimelineFile = "demo-timeline.svg"
)

var carrierKey = breaker.Key{Dependency: carriertools.Dependency, Region: region}

// faults are those that a breaker opens on.
var faults = []carrier.FaultKind{carrier.Hang, carrier.Slow, carrier.Error, carrier.Flaky, carrier.Lying}

// Options configure a demo.
type Options struct {
	// Fault is what happens to the carrier. Empty: it hangs.
	Fault carrier.FaultKind
	// Dir is where report and picture go. Empty: the working directory.
	Dir string
	// Out takes what is told. Terminal says that it is one, and shows live state.
	Out      io.Writer
	Terminal bool
}

// Run plays the four acts on a, which runs no worker yet, and leaves a worker
// with the breaker running; stop it with the function given, also after an error.
func Run(ctx context.Context, a *app.App, o Options) (report Report, stop func(), err error) {
	if o.Fault == "" {
		o.Fault = carrier.Hang
	}
	stop = func() {}
	if !slices.Contains(faults, o.Fault) {
		return report, stop, fmt.Errorf("fault: %q does not open a breaker; one of %v does", o.Fault, faults)
	}
	s := newStory(a)
	tell := newTeller(o.Out, o.Terminal, s)
	defer tell.close()

	if a.Options.Speed != 1 {
		tell.line(fmt.Sprintf("At speed %g a second of the clock is %g of the story. The breaker's own words quote the clock.", a.Options.Speed, a.Options.Speed))
	}
	start := func(unprotected bool) error {
		stop()
		stop = func() {}
		w, err := a.StartWorker(app.WorkerOptions{
			Unprotected: unprotected, OnTransition: s.transition,
			Interceptors: []sdkinterceptor.WorkerInterceptor{s.meter},
		})
		if err == nil {
			stop = w.Stop
			tell.watch(w.Plugin)
		}
		return err
	}
	// fault and repair change the carrier and give the moment.
	set := func(kind carrier.FaultKind) (time.Time, error) {
		return time.Now(), a.Carrier.SetFault(region, carrier.Fault{Kind: kind, Share: flakyShare(kind)})
	}

	tell.act("1/4 healthy", "Support agents answer tickets; the carrier works.")
	if err := start(false); err != nil {
		return report, stop, err
	}
	healthyBegan := time.Now()
	end := s.traffic(ctx)
	err = s.pause(ctx, 30*time.Second)
	end()
	if err != nil {
		return report, stop, err
	}

	tell.act("2/4 outage, no breaker", fmt.Sprintf("The carrier's fault: %s. Every call waits, Temporal retries, the model tries once more.", o.Fault))
	if err := start(true); err != nil {
		return report, stop, err
	}
	unprotectedBegan, end := time.Now(), s.traffic(ctx)
	err = s.pause(ctx, 10*time.Second)
	if err == nil {
		_, err = set(o.Fault)
	}
	if err == nil {
		err = s.pause(ctx, 20*time.Second)
	}
	end()
	if err != nil {
		return report, stop, err
	}
	if _, err = set(carrier.Healthy); err != nil {
		return report, stop, err
	}

	tell.act("3/4 the same outage, with the breaker", "The same fault again. Watch the breaker open, and the agents go on.")
	if err := start(false); err != nil {
		return report, stop, err
	}
	protectedBegan, end := time.Now(), s.traffic(ctx)
	faulted, opened, err := func() (faulted time.Time, opened breaker.Transition, err error) {
		// Long enough for as many runs to be under way as ever will be.
		if err = s.pause(ctx, 25*time.Second); err != nil {
			return
		}
		if faulted, err = set(o.Fault); err != nil {
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

	tell.act("4/4 recovery", "The carrier is repaired. Nobody tells the breaker.")
	repaired, err := set(carrier.Healthy)
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
		Healthy:     s.act(healthyBegan, unprotectedBegan, calls),
		Unprotected: s.act(unprotectedBegan, protectedBegan, calls),
		Protected:   s.act(protectedBegan, repaired, calls),
		Recovery:    s.act(repaired, recovered, calls),
		Breaker: Breaker{
			LatencyThresholdSeconds: s.seconds(a.BreakerConfig().WithDefaults().Latency),
			FaultToOpenSeconds:      s.seconds(opened.At.Sub(faulted)),
			RepairToClosedSeconds:   s.seconds(closed.At.Sub(repaired)),
		},
	}
	for _, act := range []*Act{&report.Healthy, &report.Unprotected, &report.Protected, &report.Recovery} {
		act.against(report.Healthy)
	}
	for _, t := range s.edges {
		report.Breaker.Transitions = append(report.Breaker.Transitions, Transition{
			AtSeconds: s.seconds(t.At.Sub(faulted)), From: t.From.String(), To: t.To.String(), Reason: t.Reason.String(),
		})
	}
	tell.close()
	tell.table(report)
	if err := report.write(filepath.Join(o.Dir, ReportFile)); err != nil {
		return report, stop, err
	}
	err = timeline{story: s, calls: calls, acts: []actSpan{
		{"healthy", healthyBegan, unprotectedBegan},
		{"outage, no breaker", unprotectedBegan, protectedBegan},
		{"with the breaker", protectedBegan, repaired},
		{"recovery", repaired, recovered},
	}}.write(filepath.Join(o.Dir, TimelineFile))
	return report, stop, err
}

// flakyShare is the share of calls that a flaky carrier fails.
func flakyShare(kind carrier.FaultKind) float64 {
	if kind == carrier.Flaky {
		return 0.8
	}
	return 0
}
