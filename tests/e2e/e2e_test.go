// Package e2e_test runs whole outages from end to end. Nothing in it is mocked:
// the Temporal server is the project's own embedded one; the workers run the
// real plugin, agent and tools; the carrier is the simulator of the demo, called
// over real HTTP, and what reached it is its own count. The command's tests run
// the built binary as a newcomer types it.
//
// The server runs in a process of its own, built without the race detector (see
// tests/internal/temporal): its SQLite is many times slower under it. Everything of
// this project that a user runs in a worker is watched for races. One test,
// TestStopLeavesNoGoroutine, has the server in its own process.
//
// A story's durations are divided by its speed, as the demo's are. Tests wait for
// what they are about, an edge of the breaker or a row in a list, and never for a
// time that should do. Where a requirement is a time, the test allows busyMachine
// more.
package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

const (
	// patience ends a wait for something that should have happened long ago. No
	// rule is in it.
	patience = 2 * time.Minute
	// busyMachine is allowed on top of each required time, in real time: two cores
	// that compile something else besides hold a goroutine up for this long.
	busyMachine = 500 * time.Millisecond
	// storiesAtOnce is how many tests run side by side. A story mostly waits: two
	// of them leave two cores idle.
	storiesAtOnce = "3"
)

// What TestMain has built: the command under test, and the server for the rest.
var workerCommand, temporalCommand string

func TestMain(m *testing.M) {
	flag.Parse()
	if !isSet("test.parallel") {
		_ = flag.Set("test.parallel", storiesAtOnce) // a number, so it cannot fail
	}
	dir, err := os.MkdirTemp("", "toolbreaker-e2e-")
	if err == nil {
		err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func isSet(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

func build(dir string) error {
	const module = "github.com/toolbreaker/toolbreaker"
	for target, pkg := range map[*string]string{
		&workerCommand:   module + "/worker",
		&temporalCommand: module + "/tests/internal/temporal",
	} {
		*target = filepath.Join(dir, filepath.Base(pkg))
		if out, err := exec.Command("go", "build", "-o", *target, pkg).CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
		}
	}
	return nil
}
