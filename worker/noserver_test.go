package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serverImports returns the packages of the Temporal server and its UI that this
// command imports.
func serverImports(t *testing.T, flags ...string) (found []string) {
	t.Helper()
	list, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, append(flags, ".")...)...).Output()
	require.NoError(t, err)
	for _, path := range strings.Fields(string(list)) {
		if strings.HasPrefix(path, "go.temporal.io/server") || strings.HasPrefix(path, "github.com/temporalio/ui-server") {
			found = append(found, path)
		}
	}
	return found
}

func TestNoServerBuildDoesNotImportTheServer(t *testing.T) {
	t.Parallel()
	assert.Empty(t, serverImports(t, "-tags", "noserver"))
	assert.NotEmpty(t, serverImports(t), "the default build contains the server")
}

func TestNoServerCommandWithoutAnAddressSaysWhatToSet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := filepath.Join(dir, "worker")
	built, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "noserver", "-o", command, ".").CombinedOutput()
	require.NoError(t, err, string(built))

	for _, args := range [][]string{{"demo"}, nil} {
		c := exec.CommandContext(t.Context(), command, args...)
		for _, variable := range os.Environ() {
			if !strings.HasPrefix(variable, "TEMPORAL_") {
				c.Env = append(c.Env, variable)
			}
		}
		c.Env = append(c.Env, "HOME="+dir, "XDG_CONFIG_HOME="+dir)
		c.Dir = dir
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		var exit *exec.ExitError
		require.ErrorAs(t, c.Run(), &exit)
		assert.Equal(t, 1, exit.ExitCode())
		assert.Equal(t, "error: no Temporal server is configured, and this build contains none (-tags noserver): set TEMPORAL_ADDRESS to a running server, such as 127.0.0.1:7233\n", stderr.String())
		assert.Empty(t, stdout.String())
	}
}
