package devserver_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/toolbreaker/toolbreaker/worker/devserver"
)

// cleanEnvironment takes away what the machine running the test configures.
func cleanEnvironment(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "TEMPORAL_") {
			t.Setenv(name, "") // restores it afterwards
			require.NoError(t, os.Unsetenv(name))
		}
	}
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
}

func TestEnvironmentThatSaysNothing(t *testing.T) {
	cleanEnvironment(t)
	c, configured, err := devserver.FromEnvironment(client.Options{HostPort: "127.0.0.1:1", Namespace: "base"})
	require.NoError(t, err)
	assert.False(t, configured)
	assert.Nil(t, c)
}

func TestEnvironmentWithoutService(t *testing.T) {
	cleanEnvironment(t)
	t.Setenv("TEMPORAL_ADDRESS", "")
	t.Setenv("TEMPORAL_CODEC_ENDPOINT", "http://127.0.0.1:1")
	_, configured, err := devserver.FromEnvironment(client.Options{})
	require.NoError(t, err)
	assert.False(t, configured)
}

func TestEnvironmentNamesAServer(t *testing.T) {
	s := startServer(t, devserver.Options{NoUI: true, Namespace: "shipping"})
	connect := func(t *testing.T) {
		c, configured, err := devserver.FromEnvironment(client.Options{Namespace: "base"})
		require.NoError(t, err)
		defer c.Close()
		assert.True(t, configured)
		w := startWorker(t, c)
		assert.Equal(t, "hello world", execute[string](t, c, client.StartWorkflowOptions{}, greetWorkflow, "world"))
		w.Stop()
	}
	t.Run("by variables", func(t *testing.T) {
		cleanEnvironment(t)
		t.Setenv("TEMPORAL_ADDRESS", s.HostPort())
		t.Setenv("TEMPORAL_NAMESPACE", "shipping")
		connect(t)
	})
	t.Run("by a profile", func(t *testing.T) {
		cleanEnvironment(t)
		file := filepath.Join(t.TempDir(), "temporal.toml")
		require.NoError(t, os.WriteFile(file, []byte("[profile.local]\naddress = \""+s.HostPort()+"\"\nnamespace = \"shipping\"\n"), 0o600))
		t.Setenv("TEMPORAL_CONFIG_FILE", file)
		t.Setenv("TEMPORAL_PROFILE", "local")
		connect(t)
	})
}

func TestEnvironmentNamesAClosedPort(t *testing.T) {
	cleanEnvironment(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	t.Setenv("TEMPORAL_ADDRESS", address)

	requireUnanswered(t, address)
}

func TestEnvironmentNamesAPortThatNeverAnswers(t *testing.T) {
	cleanEnvironment(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	t.Setenv("TEMPORAL_ADDRESS", l.Addr().String())

	requireUnanswered(t, l.Addr().String())
}

func requireUnanswered(t *testing.T, address string) {
	t.Helper()
	begin := time.Now()
	c, configured, err := devserver.FromEnvironment(client.Options{})
	assert.Less(t, time.Since(begin), 8*time.Second)
	assert.Nil(t, c)
	assert.True(t, configured)
	require.ErrorContains(t, err, "no Temporal server answers at "+address+" (from TEMPORAL_ADDRESS): start one there, or unset TEMPORAL_ADDRESS to use the embedded server")
}

func TestEnvironmentThatIsBroken(t *testing.T) {
	cleanEnvironment(t)
	t.Setenv("TEMPORAL_PROFILE", "missing")
	_, configured, err := devserver.FromEnvironment(client.Options{})
	assert.True(t, configured)
	assert.ErrorContains(t, err, "unable to find profile missing")
}
