// Command push measures how fast a change of the board reaches every watcher on the
// embedded server. Board and watchers are the real ones. It writes a table and
// push-report.json.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
	"github.com/toolbreaker/toolbreaker/fleet/member"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/worker/devserver"
)

const (
	taskQueue = "toolbreaker"
	// perConnection is how many watchers share a connection. The server and the board
	// are measured, not a thousand sockets.
	perConnection = 50
	// changeTimeout bounds the wait for a change.
	changeTimeout = time.Minute
)

type row struct {
	Watchers    int     `json:"watchers"`
	Changes     int     `json:"changes"`
	FirstMedian float64 `json:"first_ms_median"`
	LastMedian  float64 `json:"last_ms_median"`
	LastMax     float64 `json:"last_ms_max"`
}

func main() {
	changes := flag.Int("changes", 20, "the number of changes measured for each number of watchers")
	report := flag.String("report", "push-report.json", "the file for the report")
	flag.Parse()
	if err := run(*changes, *report); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(changes int, report string) error {
	var rows []row
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "watchers\tchanges\tfirst watcher, median\tlast watcher, median\tlast watcher, max\t")
	for _, watchers := range []int{1, 100, 1000} {
		r, err := measure(watchers, changes)
		if err != nil {
			return fmt.Errorf("%d watchers: %w", watchers, err)
		}
		rows = append(rows, r)
		fmt.Fprintf(table, "%d\t%d\t%.0f ms\t%.0f ms\t%.0f ms\t\n", r.Watchers, r.Changes, r.FirstMedian, r.LastMedian, r.LastMax)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	data, err := json.MarshalIndent(map[string]any{"push": rows}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(report, append(data, '\n'), 0o644)
}

// measure measures changes with this many watchers on a new board.
func measure(watchers, changes int) (row, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	server, err := devserver.Start(ctx, devserver.Options{NoUI: true, Logger: quiet})
	if err != nil {
		return row{}, err
	}
	defer server.Stop()
	connect := func() (client.Client, error) {
		return server.Client(client.Options{Logger: log.NewStructuredLogger(quiet)})
	}
	c, err := connect()
	if err != nil {
		return row{}, err
	}
	defer c.Close()
	control := worker.New(c, taskQueue, worker.Options{})
	probeworkflow.Register(control, c, taskQueue, func(breaker.Key) (probeworkflow.Settings, error) {
		return probeworkflow.Settings{}, nil
	})
	if err := control.Start(); err != nil {
		return row{}, err
	}
	defer control.Stop()
	if err := member.StartBoard(ctx, c, taskQueue); err != nil {
		return row{}, err
	}

	key := breaker.Key{Dependency: "carrier-api", Region: "eu-west"}
	// applied receives each epoch that a watcher has applied.
	applied := make(chan int64, watchers)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var shared client.Client
	for i := range watchers {
		if i%perConnection == 0 {
			if shared, err = connect(); err != nil {
				return row{}, err
			}
			defer shared.Close()
		}
		w := &member.Watcher{
			Client: shared, TaskQueue: taskQueue, Logger: log.NewStructuredLogger(quiet),
			Apply: func(t fleet.Table) {
				for _, e := range t.Entries {
					applied <- e.Verdict.Epoch
				}
			},
		}
		running.Go(func() { w.Run(ctx) })
	}

	// change changes the board and waits until every watcher has applied the change.
	change := func(epoch int64) (first, last time.Duration, err error) {
		begun := time.Now()
		deadline := time.After(changeTimeout)
		e := fleet.Entry{Key: key, Verdict: breaker.Verdict{State: breaker.Open, Epoch: epoch}}
		if _, err := c.SignalWithStartWorkflow(ctx, fleet.BoardID, fleet.VerdictSignal, e,
			member.BoardOptions(taskQueue), fleet.BoardWorkflow, fleet.BoardInput{}); err != nil {
			return 0, 0, err
		}
		for done := 0; done < watchers; {
			select {
			case got := <-applied:
				if got != epoch {
					continue
				}
				if done++; done == 1 {
					first = time.Since(begun)
				}
			case <-deadline:
				return 0, 0, fmt.Errorf("%d of %d watchers have applied a change", done, watchers)
			}
		}
		return first, time.Since(begun), nil
	}
	// The first changes bring all watchers to the same version.
	const warmUp = 3
	var firsts, lasts []float64
	for n := range warmUp + changes {
		first, last, err := change(int64(n + 1))
		if err != nil {
			return row{}, err
		}
		if n >= warmUp {
			firsts, lasts = append(firsts, milliseconds(first)), append(lasts, milliseconds(last))
		}
		// Until then, all watchers wait again.
		time.Sleep(500*time.Millisecond + last)
	}
	return row{
		Watchers: watchers, Changes: changes,
		FirstMedian: median(firsts), LastMedian: median(lasts), LastMax: slices.Max(lasts),
	}, nil
}

func milliseconds(d time.Duration) float64 {
	return math.Round(10*float64(d)/float64(time.Millisecond)) / 10
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
