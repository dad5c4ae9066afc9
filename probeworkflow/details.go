package probeworkflow

import (
	"fmt"
	"strings"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
)

// markdown returns the current details of the outage for the Temporal UI.
func (o *outage) markdown() string {
	v := o.verdict
	var s strings.Builder
	fmt.Fprintf(&s, "### %s is **%s**\n\n", o.Key, o.name)
	if !v.Since.IsZero() {
		fmt.Fprintf(&s, "- down since %s\n", v.Since.UTC().Format(time.DateTime+" UTC"))
	}
	if v.Reason.Rule != "" {
		fmt.Fprintf(&s, "- reason: %s\n", v.Reason)
	}
	if o.report.Reason != "" && o.report.Reason != v.Reason.String() {
		fmt.Fprintf(&s, "- opened first because: %s\n", o.report.Reason)
	}
	switch v.State {
	case breaker.Open:
		fmt.Fprintf(&s, "- next probe at %s\n", v.Next.UTC().Format(time.TimeOnly+" UTC"))
	case breaker.HalfOpen:
		s.WriteString("- probing with synthetic calls; customers' calls are refused\n")
	case breaker.Recovering:
		fmt.Fprintf(&s, "- letting %d%% of calls pass until %s\n", v.Share, v.Next.UTC().Format(time.TimeOnly+" UTC"))
	}
	if o.lastProbe != nil {
		fmt.Fprintf(&s, "- last probes: **%s** (%d calls)\n", o.lastProbe.Finding, len(o.lastProbe.Calls))
	}
	if reports := o.reports.All(); len(reports) > 0 {
		s.WriteString("\n| worker | calls | failed | slow | hanging |\n| --- | --- | --- | --- | --- |\n")
		for _, r := range reports {
			fmt.Fprintf(&s, "| %s | %d | %d | %d | %d |\n", r.Worker, r.Window.Samples, r.Window.Failures, r.Window.Slow, r.Hung)
		}
	}
	return s.String()
}

func (r ProbeReport) markdown() string {
	var s strings.Builder
	fmt.Fprintf(&s, "### Probes %s\n\n| at | finding | took | observed |\n| --- | --- | --- | --- |\n", r.Finding)
	for _, c := range r.Calls {
		fmt.Fprintf(&s, "| %s | %s | %s | %s |\n", c.At.UTC().Format(time.TimeOnly), c.Finding, c.Took, c.Observed)
	}
	return s.String()
}
