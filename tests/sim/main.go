// Command sim plays fleets of workers under virtual time: the real breakers,
// witnesses, hints and verdicts, with traffic, the network and the bare
// sequence of the outage workflow played around them. It writes a table,
// sim-report.json and docs/sim.svg.
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

// plan is how much is played.
type plan struct {
	seed uint64
	// runs is how often one bad worker is played, outages how often an outage at
	// most.
	runs, outages int
	// work is about how many calls the runs of one cell of outages may make.
	work  float64
	sizes []int
	// healthy are fleets with no outage.
	healthy []noiseRow
}

func whole(seed uint64) plan {
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
	seed := flag.Uint64("seed", 1, "what the runs are drawn from; the same one gives the same report")
	picture := flag.String("picture", "docs/sim.svg", "where the picture goes; empty: none")
	out := flag.String("report", "sim-report.json", "where the report goes")
	flag.Parse()
	if err := run(whole(*seed), *out, *picture); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(p plan, out, picture string) error {
	begun := time.Now()
	r := p.play(func(what string) { fmt.Fprintf(os.Stderr, "%6s  %s\n", time.Since(begun).Round(time.Second), what) })
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

// play plays all of a plan.
func (p plan) play(tell func(string)) report {
	r := report{Seed: p.seed}
	for _, workers := range []int{2, 3, 10, 50} {
		tell(fmt.Sprintf("one bad worker of %d", workers))
		confirmed := each(p.runs, func(i int) bool { return oneBadWorker(p.at(i), workers) })
		row := badWorkerRow{Workers: workers, Runs: p.runs}
		for _, c := range confirmed {
			if c {
				row.Convictions++
			}
		}
		r.OneBadWorker = append(r.OneBadWorker, row)
	}
	for _, f := range []fault{hanging, failing} {
		for _, workers := range p.sizes {
			tell(fmt.Sprintf("%d workers, %v", workers, f))
			for _, rate := range []float64{0.1, 1, 10, 100} {
				runs := min(p.outages, max(20, int(p.work/(float64(workers)*(rate*70+200)))))
				r.TrueOutage = append(r.TrueOutage, row(workers, rate, f,
					each(runs, func(i int) outage { return trueOutage(p.at(i), workers, rate, f) })))
			}
		}
	}
	tell("healthy fleets")
	r.HealthyNoise = each(len(p.healthy), func(i int) noiseRow {
		row := p.healthy[i]
		n := healthyNoise(p.seed, row.Workers, row.CallsPerSecond, row.FailureShare, row.Hours)
		row.Suspicions, row.Convictions, row.Signals = n.suspicions, n.convictions, n.signals
		return row
	})
	return r
}

// at is the seed of the i-th run.
func (p plan) at(i int) uint64 { return p.seed*1_000_003 + uint64(i) }

// each plays n runs on all processors, and gives what they came to in order.
func each[T any](n int, play func(i int) T) []T {
	results := make([]T, n)
	next := make(chan int)
	var players sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		players.Go(func() {
			for i := range next {
				results[i] = play(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	players.Wait()
	return results
}
