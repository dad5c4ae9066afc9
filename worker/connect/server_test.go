//go:build !noserver

package connect_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/toolbreaker/toolbreaker/worker/connect"
	"github.com/toolbreaker/toolbreaker/worker/devserver"
)

func greet(_ workflow.Context, name string) (string, error) { return "hello " + name, nil }

func TestConfiguredServer(t *testing.T) {
	s, err := devserver.Start(t.Context(), devserver.Options{NoUI: true, Namespace: "shipping"})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	runWorkflow := func(t *testing.T) {
		c, configured, err := connect.FromEnvironment(client.Options{Namespace: "base"}, "")
		require.NoError(t, err)
		defer c.Close()
		assert.True(t, configured)
		w := worker.New(c, "connect-test", worker.Options{})
		w.RegisterWorkflow(greet)
		require.NoError(t, w.Start())
		defer w.Stop()
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "connect-test"}, greet, "world")
		require.NoError(t, err)
		var greeting string
		require.NoError(t, run.Get(t.Context(), &greeting))
		assert.Equal(t, "hello world", greeting)
	}
	t.Run("by variables", func(t *testing.T) {
		cleanEnvironment(t)
		t.Setenv("TEMPORAL_ADDRESS", s.HostPort())
		t.Setenv("TEMPORAL_NAMESPACE", "shipping")
		runWorkflow(t)
	})
	t.Run("by a profile", func(t *testing.T) {
		cleanEnvironment(t)
		file := filepath.Join(t.TempDir(), "temporal.toml")
		require.NoError(t, os.WriteFile(file, []byte("[profile.local]\naddress = \""+s.HostPort()+"\"\nnamespace = \"shipping\"\n"), 0o600))
		t.Setenv("TEMPORAL_CONFIG_FILE", file)
		t.Setenv("TEMPORAL_PROFILE", "local")
		runWorkflow(t)
	})
}
