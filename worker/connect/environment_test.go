package connect_test

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

	"github.com/toolbreaker/toolbreaker/worker/connect"
)

// cleanEnvironment removes the configuration of the machine that runs the test.
func cleanEnvironment(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "TEMPORAL_") {
			t.Setenv(name, "") // restores the variable after the test
			require.NoError(t, os.Unsetenv(name))
		}
	}
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
}

func TestNothingConfigured(t *testing.T) {
	cleanEnvironment(t)
	c, configured, err := connect.FromEnvironment(client.Options{HostPort: "127.0.0.1:1", Namespace: "base"}, "")
	require.NoError(t, err)
	assert.False(t, configured)
	assert.Nil(t, c)
}

func TestCodecAloneConfiguresNoService(t *testing.T) {
	cleanEnvironment(t)
	t.Setenv("TEMPORAL_ADDRESS", "")
	t.Setenv("TEMPORAL_CODEC_ENDPOINT", "http://127.0.0.1:1")
	_, configured, err := connect.FromEnvironment(client.Options{}, "")
	require.NoError(t, err)
	assert.False(t, configured)
}

func TestConfiguredPortIsClosed(t *testing.T) {
	cleanEnvironment(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	t.Setenv("TEMPORAL_ADDRESS", address)

	requireUnanswered(t, address)
}

func TestConfiguredPortDoesNotAnswer(t *testing.T) {
	cleanEnvironment(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and sends nothing
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	t.Setenv("TEMPORAL_ADDRESS", l.Addr().String())

	requireUnanswered(t, l.Addr().String())
}

func requireUnanswered(t *testing.T, address string) {
	t.Helper()
	for fallback, instead := range map[string]string{
		"the embedded server": "unset TEMPORAL_ADDRESS to use the embedded server",
		"":                    "correct TEMPORAL_ADDRESS",
	} {
		begin := time.Now()
		c, configured, err := connect.FromEnvironment(client.Options{}, fallback)
		assert.Less(t, time.Since(begin), 8*time.Second)
		assert.Nil(t, c)
		assert.True(t, configured)
		require.ErrorContains(t, err, "no Temporal server answers at "+address+" (from TEMPORAL_ADDRESS): start one there, or "+instead+": ")
	}
}

func TestInvalidProfile(t *testing.T) {
	cleanEnvironment(t)
	t.Setenv("TEMPORAL_PROFILE", "missing")
	_, configured, err := connect.FromEnvironment(client.Options{}, "")
	assert.True(t, configured)
	assert.ErrorContains(t, err, "unable to find profile missing")
}
