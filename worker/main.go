// Command worker runs the toolbreaker example: an embedded Temporal server with
// its UI, a worker with the breaker, a support agent and a carrier to break.
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

// flags are those that every command shares.
func serverFlags(c *cobra.Command, f *serverOptions) {
	c.Flags().Float64Var(&f.speed, "speed", f.speed, "divide every duration of the story by this")
	c.Flags().StringVar(&f.db, "db", "", "keep the embedded Temporal's state in this SQLite `file`; default: in memory")
	c.Flags().IntVar(&f.port, "port", 0, "embedded Temporal's port; default: 7233, or a free one when taken")
	c.Flags().IntVar(&f.uiPort, "ui-port", 0, "embedded Temporal UI's port; default: 8233, or a free one when taken")
	c.Flags().StringVar(&f.log, "log", "", "write what the Temporal SDK and server log to this `file`")
}
