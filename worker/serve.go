package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/worker/app"
	"github.com/toolbreaker/toolbreaker/worker/devserver"
)

// serverOptions are the flags of the commands that start a server and a carrier.
type serverOptions struct {
	speed        float64
	db, log      string
	port, uiPort int
	models       []string
}

// start starts the server and the carrier. The returned function stops both and
// closes the log.
func (o serverOptions) start(ctx context.Context) (*app.App, func(), error) {
	if err := app.CheckSpeed(o.speed); err != nil {
		return nil, nil, err
	}
	logger, closeLog, err := openLog(o.log)
	if err != nil {
		return nil, nil, err
	}
	a, err := app.Start(ctx, app.Options{
		Speed: o.speed, Models: o.models, Logger: logger,
		Server: devserver.Options{DBFile: o.db, Port: o.port, UIPort: o.uiPort, Logger: logger},
	})
	if err != nil {
		closeLog()
		return nil, nil, err
	}
	return a, func() {
		a.Stop()
		closeLog()
	}, nil
}

func openLog(file string) (*slog.Logger, func(), error) {
	if file == "" {
		return slog.New(slog.DiscardHandler), func() {}, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, nil, fmt.Errorf("--log: %w", err)
	}
	return slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelInfo})), func() { _ = f.Close() }, nil
}

func serveCommand() *cobra.Command {
	o := serverOptions{speed: 1}
	c := &cobra.Command{
		Use:           "worker",
		Short:         "Run Temporal with its UI, a worker with the breaker, an agent and a simulated carrier",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return serve(c.Context(), o, c.OutOrStdout())
		},
	}
	serverFlags(c, &o)
	c.Flags().StringSliceVar(&o.models, "model", nil, "the agent's `models`, best first, at OPENAI_BASE_URL with OPENAI_API_KEY; each turn asks the\nfirst one that is available; default: a script that needs no provider")
	return c
}

// printTransitions prints one line per transition of a breaker.
func printTransitions(out io.Writer) func(breaker.Transition) {
	return func(t breaker.Transition) {
		fmt.Fprintf(out, "%s  breaker %s: %s → %s", t.At.Format("15:04:05"), t.Key, t.From, t.To)
		if t.To == breaker.Open {
			fmt.Fprintf(out, " (%s)", t.Reason)
		}
		fmt.Fprintln(out)
	}
}

func serve(ctx context.Context, o serverOptions, out io.Writer) error {
	a, stop, err := o.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	w, err := a.StartWorker(app.WorkerOptions{OnTransition: printTransitions(out)})
	if err != nil {
		return err
	}
	defer w.Stop()

	// A configured server needs no address in the commands printed below.
	environment := ""
	if a.Server == nil {
		fmt.Fprintln(out, "Temporal        configured by the environment")
	} else {
		environment = "TEMPORAL_ADDRESS=" + a.Server.HostPort() + " "
		fmt.Fprintf(out, "Temporal UI     %s\n", a.Server.UIURL())
		fmt.Fprintf(out, "Temporal        %s\n", a.Server.HostPort())
	}
	command, speed := "go run ./worker", ""
	if !devserver.Included {
		command = "go run -tags noserver ./worker"
	}
	if o.speed != 1 {
		speed = fmt.Sprintf(" --speed %g", o.speed)
	}
	fmt.Fprintf(out, "Carrier         %s\n\n", a.Carrier.URL())
	fmt.Fprintln(out, "Ask the agent, in another terminal:")
	fmt.Fprintf(out, "  %s%s ticket EU-1001%s\n\n", environment, command, speed)
	fmt.Fprintln(out, "Make the carrier fail, and repair it:")
	fmt.Fprintf(out, "  curl -X POST '%s/admin/eu-west/fault?kind=hang'\n", a.Carrier.URL())
	fmt.Fprintf(out, "  curl -X POST '%s/admin/eu-west/fault?kind=healthy'\n", a.Carrier.URL())
	fmt.Fprintln(out, "  kinds: hang, slow, error, flaky&share=0.6, rate-limited, lying, healthy; regions: eu-west, us-east")
	fmt.Fprintln(out, "\nCtrl-C stops everything.")
	<-ctx.Done()
	return nil
}
