package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/toolbreaker/toolbreaker/worker/agent"
	"github.com/toolbreaker/toolbreaker/worker/app"
	"github.com/toolbreaker/toolbreaker/worker/connect"
)

func ticketCommand() *cobra.Command {
	var speed float64
	var label bool
	c := &cobra.Command{
		Use:   "ticket ORDER...",
		Short: "Ask the agent of a running worker about orders and print its answers",
		Long: "Ask the agent of a running worker about orders. TEMPORAL_ADDRESS is the address of the Temporal server.\n" +
			"The region eu-west delivers orders that begin with EU-, us-east those with US-.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, orders []string) error {
			return ask(c.Context(), c.OutOrStdout(), orders, speed, label)
		},
	}
	c.Flags().Float64Var(&speed, "speed", 1, "the worker's --speed")
	c.Flags().BoolVar(&label, "return", false, "also request a return label")
	return c
}

// ask starts one run per order and prints each answer when it arrives.
func ask(ctx context.Context, out io.Writer, orders []string, speed float64, label bool) error {
	if err := app.CheckSpeed(speed); err != nil {
		return err
	}
	c, configured, err := connect.FromEnvironment(client.Options{
		Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	}, "")
	if err != nil {
		return err
	}
	if !configured {
		return errors.New("TEMPORAL_ADDRESS is not set: set it to the address that `go run ./worker` printed")
	}
	defer c.Close()

	var mu sync.Mutex
	var errs []error
	var runs sync.WaitGroup
	for i, order := range orders {
		runs.Go(func() {
			outcome, err := app.Ask(ctx, c, agent.Ticket{
				ID: fmt.Sprintf("%d-%d", time.Now().UnixMilli(), i), OrderID: order,
				Question: "Where is my parcel?", Return: label, Speed: speed,
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", order, err))
				return
			}
			fmt.Fprintf(out, "%s (%.1f s): %s\n", order, outcome.Seconds, outcome.Text)
			if outcome.Escalation != "" {
				fmt.Fprintf(out, "  escalated: %s\n", outcome.Escalation)
			}
		})
	}
	runs.Wait()
	return errors.Join(errs...)
}
