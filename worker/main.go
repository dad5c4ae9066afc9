// Command worker runs the toolbreaker example: an embedded Temporal server with
// its UI, a worker with the breaker, a support agent and a simulated carrier.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := serveCommand()
	root.AddCommand(runCommand(), demoCommand(), ticketCommand())
	return root
}

// serverFlags adds the flags of the commands that start a server and a carrier.
func serverFlags(c *cobra.Command, f *serverOptions) {
	c.Flags().Float64Var(&f.speed, "speed", f.speed, "divide every duration of the example by this")
	c.Flags().StringVar(&f.db, "db", "", "store the embedded server's state in this SQLite `file`; default: in memory")
	c.Flags().IntVar(&f.port, "port", 0, "port of the embedded server; default: 7233, or a free port if that is taken")
	c.Flags().IntVar(&f.uiPort, "ui-port", 0, "port of the embedded server's UI; default: 8233, or a free port if that is taken")
	c.Flags().StringVar(&f.log, "log", "", "write the log of the Temporal SDK and server to this `file`")
}
