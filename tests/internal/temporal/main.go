// Command temporal runs the embedded Temporal server in a separate process, for
// tests whose process the race detector slows down.
//
// It prints the server's address once it is ready. It ends with its standard input,
// so that it does not outlive the test that started it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/toolbreaker/toolbreaker/probeworkflow"
	"github.com/toolbreaker/toolbreaker/worker/devserver"
)

func main() {
	var o devserver.Options
	flag.DurationVar(&o.TimerResolution, "timer-resolution", time.Second, "how late a timer may fire")
	flag.StringVar(&o.DBFile, "db", "", "the file for all state; empty: in memory")
	flag.IntVar(&o.Port, "port", 0, "the port for clients; 0: a free one")
	o.DynamicConfig = map[string]any{}
	flag.Func("set", "name=value: a value of the server's dynamic configuration, a number or text", func(setting string) error {
		name, text, _ := strings.Cut(setting, "=")
		o.DynamicConfig[name] = text
		if n, err := strconv.Atoi(text); err == nil {
			o.DynamicConfig[name] = n
		}
		return nil
	})
	flag.Parse()
	if err := serve(o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(o devserver.Options) error {
	o.NoUI, o.Logger = true, slog.New(slog.DiscardHandler)
	o.SearchAttributes = map[string]enums.IndexedValueType{
		probeworkflow.SearchDependency: enums.INDEXED_VALUE_TYPE_KEYWORD,
		probeworkflow.SearchRegion:     enums.INDEXED_VALUE_TYPE_KEYWORD,
		probeworkflow.SearchState:      enums.INDEXED_VALUE_TYPE_KEYWORD,
	}
	server, err := devserver.Start(context.Background(), o)
	if err != nil {
		return err
	}
	defer server.Stop()
	fmt.Println(server.HostPort())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
