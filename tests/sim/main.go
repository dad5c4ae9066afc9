// Command sim simulates fleets of workers in virtual time. The breakers, reporters,
// hint counters and verdicts are the real ones. The traffic, the network and the
// steps of the outage workflow are simulated. It writes tables, sim-report.json and
// docs/sim.svg.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

// plan is what to simulate.
type plan struct {
	seed uint64
	// runs is the number of runs with one outlier. outages is the largest number of
	// runs of one cell of outages.
	runs, outages int
	// work is about how many calls the runs of one cell of outages may make in total.
	work  float64
	sizes []int
	// healthy are the fleets without an outage.
	healthy []noiseRow
}

func full(seed uint64) plan {
	return plan{
		seed: seed, runs: 10_000, outages: 3000, work: 3e7,
		sizes: []int{1, 2, 3, 10, 40, 100, 1000},
		healthy: []noiseRow{
			{Workers: 1000, CallsPerSecond: 1.0 / 60, FailureShare: 0.01, Hours: 10},
			{Workers: 1000, CallsPerSecond: 0.1, FailureShare: 0.01, Hours: 10},
			{Workers: 1000, CallsPerSecond: 1, FailureShare: 0.01, Hours: 10},
			{Workers: 1000, CallsPerSecond: 10, FailureShare: 0.01, Hours: 1},
			{Workers: 1000, CallsPerSecond: 100, FailureShare: 0.01, Hours: 0.25},
			{Workers: 100, CallsPerSecond: 1, FailureShare: 0, Hours: 1},
		},
	}
}

func main() {
	seed := flag.Uint64("seed", 1, "the seed of all runs; the same seed gives the same report")
	picture := flag.String("picture", "docs/sim.svg", "the file for the picture; empty: none")
	out := flag.String("report", "sim-report.json", "the file for the report")
	flag.Parse()
	if err := run(full(*seed), *out, *picture); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(p plan, out, picture string) error {
	begun := time.Now()
	r := p.simulate(func(what string) { fmt.Fprintf(os.Stderr, "%6s  %s\n", time.Since(begun).Round(time.Second), what) })
	r.print(os.Stdout)
	fmt.Printf("\nseed %d; a signal takes %v to %v, a push %v to %v, a workflow's timer is up to %v late\n", p.seed,
		measured.signal.from, measured.signal.to, measured.push.from, measured.push.to, measured.timer.to)
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, append(data, '\n'), 0o644); err != nil {
		return err
	}
	if picture == "" {
		return nil
	}
	return draw(r, picture)
}

// simulate runs everything in a plan.
func (p plan) simulate(progress func(string)) report {
	r := report{Seed: p.seed}
	for _, workers := range []int{2, 3, 10, 50} {
		progress(fmt.Sprintf("one outlier of %d workers", workers))
		confirmed := each(p.runs, func(i int) bool { return oneOutlier(p.seedOf(i), workers) })
		row := outlierRow{Workers: workers, Runs: p.runs}
		for _, c := range confirmed {
			if c {
				row.Confirmed++
			}
		}
		r.OneOutlier = append(r.OneOutlier, row)
	}
	for _, f := range []fault{hanging, failing} {
		for _, workers := range p.sizes {
			progress(fmt.Sprintf("%d workers, %v", workers, f))
			for _, rate := range []float64{0.1, 1, 10, 100} {
				runs := min(p.outages, max(20, int(p.work/(float64(workers)*(rate*70+200)))))
				r.TrueOutage = append(r.TrueOutage, row(workers, rate, f,
					each(runs, func(i int) outage { return trueOutage(p.seedOf(i), workers, rate, f) })))
			}
		}
	}
	progress("healthy fleets")
	r.HealthyNoise = each(len(p.healthy), func(i int) noiseRow {
		row := p.healthy[i]
		n := healthyNoise(p.seed, row.Workers, row.CallsPerSecond, row.FailureShare, row.Hours)
		row.Suspicions, row.Confirmed, row.Signals = n.suspicions, n.confirmed, n.signals
		return row
	})
	return r
}

// seedOf returns the seed of the i-th run.
func (p plan) seedOf(i int) uint64 { return p.seed*1_000_003 + uint64(i) }

// each makes n runs on all processors, and returns their results in order.
func each[T any](n int, run func(i int) T) []T {
	results := make([]T, n)
	next := make(chan int)
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for i := range next {
				results[i] = run(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	running.Wait()
	return results
}
