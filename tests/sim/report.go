package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// report is the content of sim-report.json. Times are in seconds; null: never.
type report struct {
	Seed         uint64       `json:"seed"`
	OneOutlier   []outlierRow `json:"one_bad_worker"`
	TrueOutage   []outageRow  `json:"true_outage"`
	HealthyNoise []noiseRow   `json:"healthy_noise"`
}

type outlierRow struct {
	Workers   int `json:"workers"`
	Runs      int `json:"runs"`
	Confirmed int `json:"convictions"`
}

type outageRow struct {
	Fault          string  `json:"fault"`
	Workers        int     `json:"workers"`
	CallsPerSecond float64 `json:"calls_per_second"`
	// Runs counts the runs in which the evidence of all workers sufficed within three
	// minutes, Others the other runs.
	Runs   int `json:"runs"`
	Others int `json:"others"`
	// ConfirmedShare is the share of runs confirmed at most maxDelay after that.
	ConfirmedShare *float64 `json:"convicted_share"`
	// Seconds are the times from there until the outage is confirmed. They may be
	// negative.
	SecondsP50  *float64 `json:"seconds_p50"`
	SecondsP999 *float64 `json:"seconds_p999"`
	// FaultToOpen is the time from the fault until every breaker is open.
	FaultToOpenP50  *float64 `json:"fault_to_all_open_p50"`
	FaultToOpenP999 *float64 `json:"fault_to_all_open_p999"`
	// Signals counts the messages of all workers up to the verdict.
	SignalsP50 int `json:"signals_p50"`
	SignalsMax int `json:"signals_max"`
}

type noiseRow struct {
	Workers        int     `json:"workers"`
	CallsPerSecond float64 `json:"calls_per_second"`
	FailureShare   float64 `json:"failure_share"`
	Hours          float64 `json:"hours"`
	Suspicions     int     `json:"suspicions"`
	Confirmed      int     `json:"convictions"`
	// Signals counts the messages of all workers.
	Signals int `json:"signals"`
}

// maxDelay is how many seconds after the evidence suffices an outage must be
// confirmed: the latency threshold and one second.
var maxDelay = (config.Latency).Seconds() + 1

// row summarizes the runs of one cell.
func row(workers int, rate float64, f fault, runs []outage) outageRow {
	r := outageRow{Fault: f.String(), Workers: workers, CallsPerSecond: rate}
	var late, open []float64
	var signals []int
	inTime := 0
	for _, o := range runs {
		if math.IsInf(o.suffices, 1) {
			r.Others++
			continue
		}
		r.Runs++
		late, open, signals = append(late, o.confirmed-o.suffices), append(open, o.allOpen), append(signals, o.signals)
		if o.confirmed-o.suffices <= maxDelay {
			inTime++
		}
	}
	if r.Runs == 0 {
		return r
	}
	share := float64(inTime) / float64(r.Runs)
	r.ConfirmedShare = &share
	r.SecondsP50, r.SecondsP999 = quantile(late, 0.5), quantile(late, 0.999)
	r.FaultToOpenP50, r.FaultToOpenP999 = quantile(open, 0.5), quantile(open, 0.999)
	slices.Sort(signals)
	r.SignalsP50, r.SignalsMax = signals[len(signals)/2], signals[len(signals)-1]
	return r
}

// quantile returns the quantile by nearest rank; nil if it is infinite.
func quantile(values []float64, q float64) *float64 {
	slices.Sort(values)
	v := values[max(0, int(math.Ceil(q*float64(len(values))))-1)]
	if math.IsInf(v, 0) {
		return nil
	}
	v = math.Round(100*v) / 100
	return &v
}

func seconds(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f", *v)
}

// print writes the tables.
func (r report) print(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\nOne outlier in a healthy fleet (0.1 to 20 calls a second, 1 %% fail at random)\n\n")
	fmt.Fprintln(t, "workers\truns\tconfirmed\t")
	for _, b := range r.OneOutlier {
		fmt.Fprintf(t, "%d\t%d\t%d\t\n", b.Workers, b.Runs, b.Confirmed)
	}
	_ = t.Flush()
	fmt.Fprintf(out, "\nTrue outage: seconds from when the evidence of all workers suffices until the outage is confirmed\n\n")
	fmt.Fprintln(t, "fault\tworkers\tcalls/s each\truns\tin time\tp50\tp99.9\tfault to all open p50\tp99.9\tsignals p50\tmax\t")
	for _, o := range r.TrueOutage {
		share := "–"
		if o.ConfirmedShare != nil {
			share = fmt.Sprintf("%.2f%%", 100**o.ConfirmedShare)
		}
		fmt.Fprintf(t, "%s\t%d\t%g\t%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", o.Fault, o.Workers, o.CallsPerSecond, o.Runs, share,
			seconds(o.SecondsP50), seconds(o.SecondsP999), seconds(o.FaultToOpenP50), seconds(o.FaultToOpenP999), o.SignalsP50, o.SignalsMax)
	}
	_ = t.Flush()
	fmt.Fprintf(out, "\nHealthy fleet, some calls fail at random\n\n")
	fmt.Fprintln(t, "workers\tcalls/s each\tfail\thours\tsuspicions\tan hour\tconfirmed\tsignals an hour\t")
	for _, n := range r.HealthyNoise {
		fmt.Fprintf(t, "%d\t%.3g\t%g%%\t%g\t%d\t%.2g\t%d\t%.0f\t\n", n.Workers, n.CallsPerSecond, 100*n.FailureShare, n.Hours,
			n.Suspicions, float64(n.Suspicions)/n.Hours, n.Confirmed, float64(n.Signals)/n.Hours)
	}
	_ = t.Flush()
}
