// Package e2e_test tests whole outages against the project's embedded Temporal server.
// Nothing is mocked: the workers run the real plugin, agent and tools, and call the
// demo's carrier over HTTP. The carrier records the calls that reach it. The tests of
// the command run its binary.
//
// The tests share one server and run in parallel, each in its own namespace. The server
// runs in a separate process without the race detector, which slows SQLite down many
// times (see tests/internal/temporal). The workers run with the race detector. Only
// TestStopLeavesNoGoroutine runs the server in the test's process.
//
// The durations of a scenario are divided by its speed, as in the demo. Tests wait for
// events, such as a transition of a breaker, and assert calls, verdicts and the order of
// transitions. Required times are asserted only with -full, together with -parallel 1
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
	// waitTimeout limits a wait. Waits that succeed are much shorter.
	waitTimeout = 2 * time.Minute
	// schedulingDelay is added to each required time, in real time. Two cores that also
	// compile can delay a goroutine by this long.
	schedulingDelay = 500 * time.Millisecond
	// parallelTests is the default of -parallel. Most tests wait for timers most of the
	// time.
	parallelTests = "6"
)

var full = flag.Bool("full", false, "also run the tests that repeat others or take long, and assert required times; use with -parallel 1")

// skipUnlessFull skips the test without -full.
func skipUnlessFull(t *testing.T) {
	t.Helper()
	if !*full {
		t.Skip("only with -full (make test-all)")
	}
}

// ifFull returns the first value with -full, and the second without.
func ifFull[T any](with, without T) T {
	if *full {
		return with
	}
	return without
}

// The paths of the command under test and of the server, which TestMain builds.
var workerCommand, temporalCommand string

func TestMain(m *testing.M) {
	flag.Parse()
	if !isSet("test.parallel") {
		_ = flag.Set("test.parallel", parallelTests) // a number, so it cannot fail
	}
	dir, err := os.MkdirTemp("", "toolbreaker-e2e-")
	if err == nil {
		err = build(dir)
	}
	var stop func() error
	if err == nil {
		sharedServer, stop, err = startServer(sharedServerArgs...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the server:", err)
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
