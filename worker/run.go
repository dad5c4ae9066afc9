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

// jsonTransition is a transition as --json prints it, one per line.
type jsonTransition struct {
	At     time.Time     `json:"at"`
	Key    breaker.Key   `json:"key"`
	From   breaker.State `json:"from"`
	To     breaker.State `json:"to"`
	Reason string        `json:"reason,omitempty"`
	// Local is true if this process decided, and false if the fleet did.
	Local bool `json:"local"`
}

func runCommand() *cobra.Command {
	var o struct {
		carrier, log string
		speed        float64
		latency      time.Duration
		json         bool
	}
	c := &cobra.Command{
		Use:   "run --carrier URL",
		Short: "Run one more worker, with the Temporal server that the environment configures and a running carrier",
		Args:  cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if u, err := url.Parse(o.carrier); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return fmt.Errorf("--carrier: %q is not an HTTP URL: use one such as http://127.0.0.1:9000", o.carrier)
			}
			logger, closeLog, err := openLog(o.log)
			if err != nil {
				return err
			}
			defer closeLog()
			onTransition := printTransitions(c.OutOrStdout())
			if o.json {
				onTransition = printTransitionsAsJSON(c.OutOrStdout())
			}
			return run(c.Context(), app.Options{Speed: o.speed, Latency: o.latency, CarrierURL: o.carrier, Logger: logger}, onTransition, c.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&o.carrier, "carrier", "", "`URL` of the carrier")
	c.Flags().StringVar(&o.log, "log", "", "write the log of the Temporal SDK to this `file`")
	c.Flags().Float64Var(&o.speed, "speed", 1, "divide every duration of the example by this")
	c.Flags().DurationVar(&o.latency, "latency", 5*time.Second, "the breaker's latency threshold, before it is divided by --speed")
	c.Flags().BoolVar(&o.json, "json", false, "print the transitions of all breakers as JSON, one per line")
	_ = c.MarkFlagRequired("carrier")
	return c
}

func run(ctx context.Context, o app.Options, onTransition func(breaker.Transition), out io.Writer) error {
	a, err := app.Start(ctx, o)
	if err != nil {
		return err
	}
	defer a.Stop()
	w, err := a.StartWorker(app.WorkerOptions{OnTransition: onTransition})
	if err != nil {
		return err
	}
	defer w.Stop()
	fmt.Fprintln(out, "The worker runs. Ctrl-C stops it.")
	<-ctx.Done()
	return nil
}

func printTransitionsAsJSON(out io.Writer) func(breaker.Transition) {
	lines := json.NewEncoder(out)
	return func(t breaker.Transition) {
		e := jsonTransition{At: t.At, Key: t.Key, From: t.From, To: t.To, Local: t.Local}
		if t.To == breaker.Open {
			e.Reason = t.Reason.String()
		}
		// The worker goes on when nobody reads its output.
		_ = lines.Encode(e)
	}
}
