package e2e_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.uber.org/goleak"

	"github.com/toolbreaker/toolbreaker/worker/agent"
	"github.com/toolbreaker/toolbreaker/worker/app"
	"github.com/toolbreaker/toolbreaker/worker/carrier"
	"github.com/toolbreaker/toolbreaker/worker/devserver"
)

var discard = slog.New(slog.DiscardHandler)

// This test runs the server in its own process. It is not parallel: it would report the
// goroutines of other tests as leaks.
func TestStopLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	a, err := app.Start(t.Context(), app.Options{
		Speed: speed, Embedded: true, Server: devserver.Options{NoUI: true, Logger: discard},
	})
	require.NoError(t, err)
	defer a.Stop()

	for _, ticket := range []string{"first", "after a restart"} {
		w, err := a.StartWorker(app.WorkerOptions{})
		require.NoError(t, err)
		outcome, err := app.Ask(t.Context(), a.Client, agent.Ticket{ID: ticket, OrderID: "EU-1", Speed: speed})
		require.NoError(t, err)
		assertComplete(t, outcome)
		w.Stop()
	}
	stopDuringCall(t, a)
	a.Stop()

	goleak.VerifyNone(t, before,
		// These goroutines belong to the server. The tests of package devserver explain
		// them.
		goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"),
		goleak.IgnoreAnyFunction("google.golang.org/grpc/internal/grpcsync.(*CallbackSerializer).run"),
		goleak.IgnoreAnyFunction("google.golang.org/grpc.(*addrConn).resetTransportAndUnlock"),
	)
}

// stopDuringCall stops a worker while one of its calls hangs.
func stopDuringCall(t *testing.T, a *app.App) {
	t.Helper()
	w, err := a.StartWorker(app.WorkerOptions{})
	require.NoError(t, err)
	require.NoError(t, a.Carrier.SetFault(carrier.EUWest, carrier.Fault{Kind: carrier.Hang}))
	_, err = a.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: app.TaskQueue},
		agent.WorkflowType, agent.Ticket{ID: "hanging", OrderID: "EU-1", Speed: speed})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return a.Carrier.State().Regions[carrier.EUWest].InFlight > 0
	}, waitTimeout, 10*time.Millisecond)
	w.Stop()
}
