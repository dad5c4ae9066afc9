package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// report is what sim-report.json holds. Times are in seconds; null: it never
// came to that.
type report struct {
	Seed         uint64         `json:"seed"`
	OneBadWorker []badWorkerRow `json:"one_bad_worker"`
	TrueOutage   []outageRow    `json:"true_outage"`
	HealthyNoise []noiseRow     `json:"healthy_noise"`
}

type badWorkerRow struct {
	Workers     int `json:"workers"`
	Runs        int `json:"runs"`
	Convictions int `json:"convictions"`
}

type outageRow struct {
	Fault          string  `json:"fault"`
	Workers        int     `json:"workers"`
	CallsPerSecond float64 `json:"calls_per_second"`
	// Runs are those in which all that all workers knew came to be enough within
	// three minutes, Others those in which it never did.
	Runs   int `json:"runs"`
	Others int `json:"others"`
	// ConvictedShare is the share confirmed within the latency threshold and a
	// second of that.
	ConvictedShare *float64 `json:"convicted_share"`
	// Seconds are from there to the conviction; before it they are negative.
	SecondsP50  *float64 `json:"seconds_p50"`
	SecondsP999 *float64 `json:"seconds_p999"`
	// FaultToOpen is from the fault until every breaker was open.
	FaultToOpenP50  *float64 `json:"fault_to_all_open_p50"`
	FaultToOpenP999 *float64 `json:"fault_to_all_open_p999"`
	// Signals are all that workers sent, up to the verdict.
	SignalsP50 int `json:"signals_p50"`
	SignalsMax int `json:"signals_max"`
}

type noiseRow struct {
	Workers        int     `json:"workers"`
	CallsPerSecond float64 `json:"calls_per_second"`
	FailureShare   float64 `json:"failure_share"`
	Hours          float64 `json:"hours"`
	Suspicions     int     `json:"suspicions"`
	Convictions    int     `json:"convictions"`
	// Signals are all that workers sent.
	Signals int `json:"signals"`
}

// within is how long after there is evidence enough a conviction is in time.
var within = (config.Latency).Seconds() + 1

// row sums up the runs of one cell.
func row(workers int, rate float64, f fault, runs []outage) outageRow {
	r := outageRow{Fault: f.String(), Workers: workers, CallsPerSecond: rate}
	var late, open []float64
	var signals []int
	inTime := 0
	for _, o := range runs {
		if math.IsInf(o.enough, 1) {
			r.Others++
			continue
		}
		r.Runs++
		late, open, signals = append(late, o.confirmed-o.enough), append(open, o.allOpen), append(signals, o.signals)
		if o.confirmed-o.enough <= within {
			inTime++
		}
	}
	if r.Runs == 0 {
		return r
	}
	share := float64(inTime) / float64(r.Runs)
	r.ConvictedShare = &share
	r.SecondsP50, r.SecondsP999 = quantile(late, 0.5), quantile(late, 0.999)
	r.FaultToOpenP50, r.FaultToOpenP999 = quantile(open, 0.5), quantile(open, 0.999)
	slices.Sort(signals)
	r.SignalsP50, r.SignalsMax = signals[len(signals)/2], signals[len(signals)-1]
	return r
}

// quantile is by nearest rank; nil for what never came.
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

// print writes the tables for people.
func (r report) print(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\nOne bad worker among healthy ones (0.1 to 20 calls a second, 1 %% fail by chance)\n\n")
	fmt.Fprintln(t, "workers\truns\tconvictions\t")
	for _, b := range r.OneBadWorker {
		fmt.Fprintf(t, "%d\t%d\t%d\t\n", b.Workers, b.Runs, b.Convictions)
	}
	_ = t.Flush()
	fmt.Fprintf(out, "\nTrue outage: seconds from evidence enough (everything that all workers know convicts) to the conviction\n\n")
	fmt.Fprintln(t, "fault\tworkers\tcalls/s each\truns\tin time\tp50\tp99.9\tfault to all open p50\tp99.9\tsignals p50\tmost\t")
	for _, o := range r.TrueOutage {
		share := "–"
		if o.ConvictedShare != nil {
			share = fmt.Sprintf("%.2f%%", 100**o.ConvictedShare)
		}
		fmt.Fprintf(t, "%s\t%d\t%g\t%d\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", o.Fault, o.Workers, o.CallsPerSecond, o.Runs, share,
			seconds(o.SecondsP50), seconds(o.SecondsP999), seconds(o.FaultToOpenP50), seconds(o.FaultToOpenP999), o.SignalsP50, o.SignalsMax)
	}
	_ = t.Flush()
	fmt.Fprintf(out, "\nHealthy fleet, some calls fail by chance\n\n")
	fmt.Fprintln(t, "workers\tcalls/s each\tfail\thours\tsuspicions\tan hour\tconvictions\tsignals an hour\t")
	for _, n := range r.HealthyNoise {
		fmt.Fprintf(t, "%d\t%.3g\t%g%%\t%g\t%d\t%.2g\t%d\t%.0f\t\n", n.Workers, n.CallsPerSecond, 100*n.FailureShare, n.Hours,
			n.Suspicions, float64(n.Suspicions)/n.Hours, n.Convictions, float64(n.Signals)/n.Hours)
	}
	_ = t.Flush()
}
