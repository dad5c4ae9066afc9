// Package e2e_test runs whole outages from end to end. Nothing in it is mocked:
// the Temporal server is the project's own embedded one; the workers run the
// real plugin, agent and tools; the carrier is the simulator of the demo, called
// over real HTTP, and what reached it is its own count. The command's tests run
// the built binary as a newcomer types it.
//
// The tests share one server and run side by side, each in a namespace of its own.
// The server runs in a process of its own, built without the race detector (see
// tests/internal/temporal): its SQLite is many times slower under it. Everything of
// this project that a user runs in a worker is watched for races. One test,
// TestStopLeavesNoGoroutine, has the server in its own process.
//
// A story's durations are divided by its speed, as the demo's are. Tests wait for
// what they are about, an edge of the breaker or a row in a list, and never for a
// time that should do. They judge by calls, verdicts and the order of edges. How fast
// something is required to be is judged with -full alone, which is run with -parallel 1
// (make test-all).
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
	// testsAtOnce is how many tests run side by side unless -parallel says so. Most
	// wait for timers most of the time.
	testsAtOnce = "6"
)

var full = flag.Bool("full", false, "run the tests that repeat a proof or take long, too, and judge how fast things are; use with -parallel 1")

// onlyInFull skips a test that make test leaves out.
func onlyInFull(t *testing.T) {
	t.Helper()
	if !*full {
		t.Skip("only with -full (make test-all)")
	}
}

// inFull is the first value with -full, and the second without.
func inFull[T any](long, short T) T {
	if *full {
		return long
	}
	return short
}

// What TestMain has built: the command under test, and the server for the rest.
var workerCommand, temporalCommand string

func TestMain(m *testing.M) {
	flag.Parse()
	if !isSet("test.parallel") {
		_ = flag.Set("test.parallel", testsAtOnce) // a number, so it cannot fail
	}
	dir, err := os.MkdirTemp("", "toolbreaker-e2e-")
	if err == nil {
		err = build(dir)
	}
	var stop func() error
	if err == nil {
		sharedServer, stop, err = startServer(sharedSettings...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "the server:", err)
		code = max(code, 1)
	}
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
