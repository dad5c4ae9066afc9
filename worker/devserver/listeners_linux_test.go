//go:build !noserver

package devserver_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/worker/devserver"
)

func TestListensOnLoopbackOnly(t *testing.T) {
	before := listeners(t)
	startServer(t, devserver.Options{})

	var opened []string
	for socket, address := range listeners(t) {
		if _, old := before[socket]; !old {
			opened = append(opened, address)
		}
	}
	for _, address := range opened {
		assert.True(t, strings.HasPrefix(address, loopbackHex), "%s is not 127.0.0.1", address)
	}
	// Frontend, history, matching, worker and UI. None for metrics, pprof or membership.
	assert.Len(t, opened, 5)
}

const loopbackHex = "0100007F:" // as the kernel writes it on little-endian machines

// listeners returns this process's listening sockets: inode → local address.
func listeners(t *testing.T) map[string]string {
	t.Helper()
	mine := map[string]bool{}
	fds, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, "socket:[") {
			mine[strings.Trim(target, "socket:[]")] = true
		}
	}
	found := map[string]string{}
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open("/proc/self/net/" + table)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			var slot, local, remote, state, ignored, inode string
			_, err := fmt.Sscan(lines.Text(), &slot, &local, &remote, &state, &ignored, &ignored, &ignored, &ignored, &ignored, &inode)
			if err == nil && state == "0A" && mine[inode] {
				found[inode] = local
			}
		}
		require.NoError(t, f.Close())
	}
	return found
}
