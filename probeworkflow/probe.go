package probeworkflow

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// Finding is what a round of probes found.
type Finding string

const (
	// Passed: the dependency answered every synthetic call in time.
	Passed Finding = "passed"
	// Failed: a synthetic call failed or was too slow.
	Failed Finding = "failed"
	// Inconclusive: no worker took the call, or its outcome is no evidence about the
	// dependency.
	Inconclusive Finding = "inconclusive"
)

const (
	// ProbeFailed is the type of the interceptor's application error for a synthetic
	// call that failed. ProbeIgnored is the type for one whose outcome is no evidence
	// about the dependency.
	ProbeFailed  = "ProbeFailed"
	ProbeIgnored = "ProbeIgnored"
)

// ProbeInput is a round of probes.
type ProbeInput struct {
	Key  breaker.Key `json:"key"`
	Call Call        `json:"call"`
	// Successes is how many calls in a row must succeed.
	Successes int `json:"successes"`
	// Timeout is the latency threshold. A slow probe has failed.
	Timeout time.Duration `json:"timeout_ns"`
	// Interval is the pause between two calls.
	Interval time.Duration `json:"interval_ns"`
}

// ProbeReport is the result of a round of probes, with each call.
type ProbeReport struct {
	Finding Finding      `json:"finding"`
	Calls   []ProbedCall `json:"calls"`
}

// ProbedCall is one synthetic call.
type ProbedCall struct {
	At       time.Time `json:"at"`
	Finding  Finding   `json:"finding"`
	Took     string    `json:"took"`
	Observed string    `json:"observed,omitempty"`
}

// Probe runs synthetic calls one at a time, until Successes calls have succeeded or
// one has not.
func Probe(ctx workflow.Context, in ProbeInput) (ProbeReport, error) {
	report := ProbeReport{Finding: Inconclusive}
	for n := 1; n <= in.Successes; n++ {
		if n > 1 {
			if err := workflow.NewTimerWithOptions(ctx, in.Interval, workflow.TimerOptions{
				Summary: "pause between probes",
			}).Get(ctx, nil); err != nil {
				return report, err
			}
		}
		call := probeOnce(ctx, in, n)
		report.Finding = call.Finding
		report.Calls = append(report.Calls, call)
		if call.Finding != Passed {
			break
		}
	}
	workflow.SetCurrentDetails(ctx, report.markdown())
	return report, ctx.Err()
}

func probeOnce(ctx workflow.Context, in ProbeInput, n int) ProbedCall {
	started := workflow.Now(ctx)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: in.Call.TaskQueue,
		// The interceptor ends the call at Timeout. The longer limit is for a tool that
		// ignores its context.
		StartToCloseTimeout:    2 * in.Timeout,
		ScheduleToStartTimeout: in.Call.QueueTimeout,
		DisableEagerExecution:  true,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                fmt.Sprintf("synthetic call %d of %d to %s", n, in.Successes, in.Key),
	})
	// The arguments are encoded already. The client's converter would encrypt them a
	// second time.
	ctx = workflow.WithDataConverter(ctx, converter.GetDefaultDataConverter())
	err := workflow.ExecuteActivity(ctx, in.Call.Activity, rawArgs(in.Call.Args)...).Get(ctx, nil)
	finding, observed := judgeProbe(err)
	return ProbedCall{
		At: started, Finding: finding, Observed: observed,
		Took: workflow.Now(ctx).Sub(started).Round(time.Millisecond).String(),
	}
}

// judgeProbe classifies the error of a synthetic call. The history gets the kind of
// error, never its text.
func judgeProbe(err error) (Finding, string) {
	if err == nil {
		return Passed, ""
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START {
		return Inconclusive, "no worker took the call"
	}
	if timeout != nil {
		return Failed, "no answer"
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		switch app.Type() {
		case ProbeIgnored:
			return Inconclusive, app.Message()
		case ProbeFailed:
			return Failed, app.Message()
		}
		// An error from errors.New has no type.
		return Failed, cmp.Or(app.Type(), "error")
	}
	if temporal.IsCanceledError(err) {
		return Inconclusive, "cancelled"
	}
	return Failed, "error"
}
