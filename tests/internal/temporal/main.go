// Command temporal runs the embedded Temporal server in a process of its own,
// for tests whose own process is slowed down by the race detector.
//
// It prints the server's address once it is ready and ends with its standard
// input, so that it never outlives the test that started it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/worker/devserver"
)

func main() {
	resolution := flag.Duration("timer-resolution", time.Second, "how late a timer may fire")
	db := flag.String("db", "", "the file that holds all state; empty: in memory")
	port := flag.Int("port", 0, "where clients connect; 0: a free one")
	flag.Parse()
	if err := serve(*resolution, *db, *port); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(resolution time.Duration, db string, port int) error {
	server, err := devserver.Start(context.Background(), devserver.Options{
		DBFile: db, Port: port, NoUI: true, TimerResolution: resolution, Logger: slog.New(slog.DiscardHandler),
		SearchAttributes: map[string]enums.IndexedValueType{
			probeworkflow.SearchDependency: enums.INDEXED_VALUE_TYPE_KEYWORD,
			probeworkflow.SearchRegion:     enums.INDEXED_VALUE_TYPE_KEYWORD,
			probeworkflow.SearchState:      enums.INDEXED_VALUE_TYPE_KEYWORD,
		},
	})
	if err != nil {
		return err
	}
	defer server.Stop()
	fmt.Println(server.HostPort())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
