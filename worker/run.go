package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/worker/app"
)

// edge is a transition as --json prints it, one a line.
type edge struct {
	At     time.Time     `json:"at"`
	Key    breaker.Key   `json:"key"`
	From   breaker.State `json:"from"`
	To     breaker.State `json:"to"`
	Reason string        `json:"reason,omitempty"`
	// Local: this process decided by itself.
	Local bool `json:"local"`
}

func runCommand() *cobra.Command {
	var o struct {
		carrier, log string
		speed        float64
		json         bool
	}
	c := &cobra.Command{
		Use:   "run --carrier URL",
		Short: "Run one more worker, for the Temporal that the environment configures and a carrier that runs already",
		Args:  cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if u, err := url.Parse(o.carrier); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return fmt.Errorf("--carrier: %q is no URL such as http://127.0.0.1:9000", o.carrier)
			}
			logger, closeLog, err := openLog(o.log)
			if err != nil {
				return err
			}
			defer closeLog()
			told := tell(c.OutOrStdout())
			if o.json {
				told = tellJSON(c.OutOrStdout())
			}
			return run(c.Context(), app.Options{Speed: o.speed, CarrierURL: o.carrier, Logger: logger}, told, c.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&o.carrier, "carrier", "", "the carrier's `URL`")
	c.Flags().StringVar(&o.log, "log", "", "write what the Temporal SDK logs to this `file`")
	c.Flags().Float64Var(&o.speed, "speed", 1, "divide every duration of the story by this")
	c.Flags().BoolVar(&o.json, "json", false, "print each breaker's transitions as JSON, one a line")
	_ = c.MarkFlagRequired("carrier")
	return c
}

func run(ctx context.Context, o app.Options, told func(breaker.Transition), out io.Writer) error {
	a, err := app.Start(ctx, o)
	if err != nil {
		return err
	}
	defer a.Stop()
	w, err := a.StartWorker(app.WorkerOptions{OnTransition: told})
	if err != nil {
		return err
	}
	defer w.Stop()
	fmt.Fprintln(out, "The worker runs. Ctrl-C stops it.")
	<-ctx.Done()
	return nil
}

func tellJSON(out io.Writer) func(breaker.Transition) {
	lines := json.NewEncoder(out)
	return func(t breaker.Transition) {
		e := edge{At: t.At, Key: t.Key, From: t.From, To: t.To, Local: t.Local}
		if t.To == breaker.Open {
			e.Reason = t.Reason.String()
		}
		// A reader that has gone is no reason to stop working.
		_ = lines.Encode(e)
	}
}
