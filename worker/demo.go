package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/toolbreaker/toolbreaker/worker/carrier"
	"github.com/toolbreaker/toolbreaker/worker/demo"
)

func demoCommand() *cobra.Command {
	o := serverOptions{speed: 10}
	var keep bool
	var fault, dir string
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run agents through an outage: healthy, without a breaker, with a breaker, and recovery",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, out := c.Context(), c.OutOrStdout()
			a, stop, err := o.start(ctx)
			if err != nil {
				return err
			}
			defer stop()
			if a.Server != nil {
				fmt.Fprintf(out, "Temporal %s, UI %s\n", a.Server.HostPort(), a.Server.UIURL())
			}
			_, stopWorker, err := demo.Run(ctx, a, demo.Options{
				Fault: carrier.FaultKind(fault), Dir: dir,
				Out: out, Terminal: term.IsTerminal(int(os.Stdout.Fd())),
			})
			defer func() { stopWorker() }()
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "Files written: %s, %s\n", demo.ReportFile, demo.TimelineFile)
			if keep && a.Server != nil {
				fmt.Fprintf(out, "\nPages to open (Ctrl-C stops the server):\n")
				fmt.Fprintf(out, "  all outages      %s\n", a.Server.UIURL()+`/namespaces/default/workflows?query=%60WorkflowType%60%3D%22BreakerOutage%22`)
				fmt.Fprintf(out, "  the board        %s\n", a.Server.UIURL()+"/namespaces/default/workflows/breaker-board")
				fmt.Fprintf(out, "  all agent runs   %s\n", a.Server.UIURL()+`/namespaces/default/workflows?query=%60WorkflowType%60%3D%22SupportTicket%22`)
				<-ctx.Done()
			}
			return nil
		},
	}
	serverFlags(c, &o)
	c.Flags().BoolVar(&keep, "keep", false, "keep the embedded server running at the end and print links to its UI")
	c.Flags().StringVar(&fault, "fault", string(carrier.Hang), "the carrier's `fault`: hang, slow, error, flaky or lying")
	c.Flags().StringVar(&dir, "out", ".", "write the report and the picture to this `directory`")
	return c
}
