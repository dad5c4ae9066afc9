// Command ratios runs the benchmarks of this module in rounds and prints one table:
// the cost of a call to toolbreaker, as a ratio to each other library and to the
// floor. Each ratio is taken within one round, in which the machine is under the
// same load. The table shows the median over the rounds.
//
//	go run ./ratios -rounds 15 -benchtime 100ms
//
// On a busy machine, -cpu compares processor time. It leaves out the time spent
// waiting for a lock.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const ours = "toolbreaker"

func main() {
	rounds := flag.Int("rounds", 15, "how many times each benchmark runs")
	benchtime := flag.String("benchtime", "100ms", "how long each run lasts")
	pattern := flag.String("bench", ".", "which benchmarks to run")
	cpu := flag.Bool("cpu", false, "compare processor time, not wall-clock time")
	flag.Parse()
	all := results{unit: "ns/op"}
	if *cpu {
		all.unit = "cpu-ns/op"
	}
	if err := all.run(*rounds, *benchtime, *pattern); err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

func (r *results) run(rounds int, benchtime, pattern string) error {
	dir, err := os.MkdirTemp("", "ratios")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "bench.test")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, "github.com/toolbreaker/toolbreaker/tests/bench").CombinedOutput(); err != nil {
		return fmt.Errorf("building the benchmarks: %w\n%s", err, out)
	}
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "\rround %d of %d", round+1, rounds)
		out, err := exec.Command(binary, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime="+benchtime).Output()
		if err != nil {
			return fmt.Errorf("running the benchmarks: %w\n%s", err, out)
		}
		r.add(round, string(out))
	}
	fmt.Fprint(os.Stderr, "\r")
	fmt.Print(r.table())
	return nil
}

// results holds the nanoseconds of a call by benchmark, system and round.
type results struct {
	// unit is the unit of the compared figure.
	unit                string
	benchmarks, systems []string
	ns                  map[string]map[string]map[int]float64
	// allocs is the largest number of allocations of toolbreaker in any round, by
	// benchmark.
	allocs map[string]int
}

// line matches a result: its name, and its figures with their units.
var line = regexp.MustCompile(`^Benchmark(\w+)/([\w-]+?)(?:-\d+)?\s+\d+\s+(.*)$`)

func (r *results) add(round int, output string) {
	if r.ns == nil {
		r.ns, r.allocs = map[string]map[string]map[int]float64{}, map[string]int{}
	}
	for text := range strings.Lines(output) {
		m := line.FindStringSubmatch(strings.TrimSpace(text))
		if m == nil {
			continue
		}
		benchmark, system := m[1], m[2]
		figures := map[string]float64{}
		for fields := strings.Fields(m[3]); len(fields) >= 2; fields = fields[2:] {
			figures[fields[1]], _ = strconv.ParseFloat(fields[0], 64)
		}
		ns, allocs := figures[r.unit], int(figures["allocs/op"])
		if r.ns[benchmark] == nil {
			r.ns[benchmark] = map[string]map[int]float64{}
			r.benchmarks = append(r.benchmarks, benchmark)
		}
		if !slices.Contains(r.systems, system) {
			r.systems = append(r.systems, system)
		}
		if r.ns[benchmark][system] == nil {
			r.ns[benchmark][system] = map[int]float64{}
		}
		r.ns[benchmark][system][round] = ns
		if system == ours {
			r.allocs[benchmark] = max(r.allocs[benchmark], allocs)
		}
	}
}

func (r *results) table() string {
	var s strings.Builder
	s.WriteString("| benchmark | ns a call | allocs |")
	for _, system := range r.systems {
		if system != ours {
			fmt.Fprintf(&s, " × %s |", system)
		}
	}
	s.WriteString("\n|" + strings.Repeat(" --- |", len(r.systems)+2) + "\n")
	for _, benchmark := range r.benchmarks {
		own := r.ns[benchmark][ours]
		fmt.Fprintf(&s, "| %s | %.1f | %d |", benchmark, median(values(own)), r.allocs[benchmark])
		for _, system := range r.systems {
			if system == ours {
				continue
			}
			var ratios []float64
			for round, ns := range r.ns[benchmark][system] {
				if ns > 0 && own[round] > 0 {
					ratios = append(ratios, own[round]/ns)
				}
			}
			if len(ratios) == 0 {
				s.WriteString(" |")
				continue
			}
			fmt.Fprintf(&s, " %.2f |", median(ratios))
		}
		s.WriteString("\n")
	}
	return s.String()
}

func values(m map[int]float64) []float64 {
	var all []float64
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2
	}
	return all[len(all)/2]
}
