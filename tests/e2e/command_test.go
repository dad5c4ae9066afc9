package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newCommand returns the command in an environment that does not configure Temporal. It is
// killed after limit, or when the test ends.
func newCommand(t *testing.T, limit time.Duration, args ...string) *exec.Cmd {
	t.Helper()
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, workerCommand, args...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TEMPORAL_") {
			c.Env = append(c.Env, variable)
		}
	}
	c.Env = append(c.Env, "HOME="+home, "XDG_CONFIG_HOME="+home)
	c.Dir = home
	return c
}

// failureTimeout limits the time until a command reports that it cannot start.
func failureTimeout() time.Duration { return ifFull(15*time.Second, waitTimeout) }

// runFailing runs a command that must fail, and returns its standard error.
func runFailing(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "the command must fail; standard output:\n%s", stdout.String())
	require.Equal(t, 1, exit.ExitCode(), "the command must exit (-1: it was killed); standard output:\n%s", stdout.String())
	assert.NotContains(t, stdout.String(), "1/4", "the demo has not started")
	assert.NotContains(t, stderr.String(), "goroutine ", "no stack trace")
	return stderr.String()
}

func TestCommandReportsInvalidArguments(t *testing.T) {
	t.Parallel()
	used := occupiedPort(t)
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"port in use":     {[]string{"--port", used}, []string{"127.0.0.1", used, "is taken"}},
		"UI port in use":  {[]string{"demo", "--ui-port", used}, []string{"127.0.0.1", used, "is taken"}},
		"unknown fault":   {[]string{"demo", "--fault", "gremlins"}, []string{"fault", `"gremlins"`, "hang", "lying"}},
		"healthy fault":   {[]string{"demo", "--fault", "healthy"}, []string{"fault", `"healthy"`, "hang", "lying"}},
		"speed too high":  {[]string{"demo", "--speed", "1000"}, []string{"speed", "1000"}},
		"negative speed":  {[]string{"--speed", "-1"}, []string{"speed", "-1"}},
		"no speed":        {[]string{"--speed", "0"}, []string{"speed", "0"}},
		"speed is NaN":    {[]string{"--speed", "NaN"}, []string{"speed", "NaN"}},
		"speed is text":   {[]string{"--speed", "fast"}, []string{"--speed", `"fast"`}},
		"unknown command": {[]string{"dmeo"}, []string{`"dmeo"`}},
		"no server":       {[]string{"ticket", "EU-1"}, []string{"TEMPORAL_ADDRESS"}},
	} {
		t.Run(name, func(t *testing.T) {
			message := runFailing(t, newCommand(t, failureTimeout(), tt.args...))
			for _, word := range tt.want {
				assert.Contains(t, message, word)
			}
		})
	}
}

// The command fails if the configured server refuses connections or does not respond. It
// does not start an embedded server instead.
func TestCommandReportsAnUnreachableServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	for name, address := range map[string]string{"refuses connections": "127.0.0.1:1", "does not respond": silent.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{nil, {"demo"}, {"ticket", "EU-1"}} {
				c := newCommand(t, failureTimeout(), args...)
				c.Env = append(c.Env, "TEMPORAL_ADDRESS="+address)
				message := runFailing(t, c)
				assert.Contains(t, message, "no Temporal server answers at "+address)
				assert.Contains(t, message, "TEMPORAL_ADDRESS")
			}
		})
	}
}

func occupiedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// The commands in the output work, and an interrupt stops the command.
func TestCommandServesUntilInterrupted(t *testing.T) {
	t.Parallel()
	serve := newCommand(t, waitTimeout, "--speed", "5")
	stdout, err := serve.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, serve.Start())
	printed := readUntil(t, stdout, "Ctrl-C stops everything.")

	ticket := newCommand(t, waitTimeout, words(t, printed, `go run \./worker (ticket .*)`)...)
	ticket.Env = append(ticket.Env, "TEMPORAL_ADDRESS="+match(t, printed, `TEMPORAL_ADDRESS=(\S+)`))
	output, err := ticket.Output()
	require.NoError(t, err)
	assert.Contains(t, string(output), "EU-1001")
	assert.NotContains(t, string(output), "escalated")

	response, err := http.Get(match(t, printed, `Temporal UI\s+(\S+)`))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusOK, response.StatusCode)
	response, err = http.Post(match(t, printed, `curl -X POST '(\S+kind=hang)'`), "", nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusOK, response.StatusCode)

	require.NoError(t, serve.Process.Signal(os.Interrupt))
	assert.NoError(t, serve.Wait(), "exit after an interrupt")
}

// readUntil returns the output up to and including a line.
func readUntil(t *testing.T, r io.Reader, last string) string {
	t.Helper()
	var text strings.Builder
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		if lines.Text() == last {
			return text.String()
		}
	}
	require.FailNow(t, "the command ended", "output:\n%s", text.String())
	return ""
}

func match(t *testing.T, text, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	require.Len(t, found, 2, "%s in:\n%s", pattern, text)
	return found[1]
}

func words(t *testing.T, text, pattern string) []string {
	t.Helper()
	return strings.Fields(match(t, text, pattern))
}

// The figures of the report are asserted only with -full, at half the usual speed and
// without parallel tests.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := newCommand(t, 2*waitTimeout, "demo", "--speed", ifFull("5", "10"), "--out", dir)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "output of the demo:\n%s", out)

	text, err := os.ReadFile(filepath.Join(dir, "demo-report.json"))
	require.NoError(t, err)
	var report demoReport
	require.NoError(t, json.Unmarshal(text, &report), string(text))
	requireKeys(t, text)

	figures := func(name string, check func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			skipUnlessFull(t)
			check(t)
		})
	}
	figures("healthy", func(t *testing.T) {
		act := report.Healthy
		assert.InDelta(t, 1, act.RunRatioMedian, 0.001)
		assert.Equal(t, 3*act.Runs, act.CustomerCallsReached, "three carrier calls per run")
		assert.Zero(t, act.PartialAnswers+act.Escalations+act.ProbeCalls)
	})
	figures("unprotected", func(t *testing.T) {
		assert.GreaterOrEqual(t, report.Unprotected.RunRatioMedian, 10.0)
		assert.Positive(t, report.Unprotected.SlotSecondsWaiting)
		assert.Zero(t, report.Unprotected.ProbeCalls)
	})
	figures("protected", func(t *testing.T) {
		act := report.Protected
		assert.Zero(t, act.CustomerCallsWhileOpen)
		assert.Positive(t, act.RunRatioMaxOnceOpen)
		assert.LessOrEqual(t, act.RunRatioMaxOnceOpen, runRatio)
		assert.Positive(t, act.ProbeCalls)
		assert.Positive(t, act.PartialAnswers)
		assert.Equal(t, act.PartialAnswers, act.Escalations)
		assert.Less(t, act.SlotSecondsWaiting, report.Unprotected.SlotSecondsWaiting)
	})
	figures("recovery", func(t *testing.T) {
		assert.Zero(t, report.Recovery.CustomerCallsWhileOpen)
		assert.Positive(t, report.Recovery.CustomerCallsReached)
		assert.Positive(t, report.Recovery.ProbeCalls)
	})
	t.Run("breaker", func(t *testing.T) {
		b := report.Breaker
		assert.InDelta(t, 5, b.LatencyThresholdSeconds, 0.001)
		assert.Positive(t, b.FaultToOpenSeconds)
		if *full {
			assert.LessOrEqual(t, b.FaultToOpenSeconds, b.LatencyThresholdSeconds+1+schedulingDelay.Seconds()*report.Speed)
		}
		assert.Positive(t, b.RepairToClosedSeconds)
		require.GreaterOrEqual(t, len(b.Transitions), 4)
		for i, transition := range b.Transitions {
			from := "closed"
			if i > 0 {
				from = b.Transitions[i-1].To
			}
			assert.Equal(t, from, transition.From, "each transition starts from the previous state")
		}
		assert.Equal(t, "closed", b.Transitions[len(b.Transitions)-1].To)
		assert.Contains(t, b.Transitions[0].Reason, "still hanging")
	})
	t.Run("picture", func(t *testing.T) {
		svg, err := os.ReadFile(filepath.Join(dir, "demo-timeline.svg"))
		require.NoError(t, err)
		assert.Equal(t, "svg", rootElement(t, svg))
	})
	t.Run("table", func(t *testing.T) {
		assert.Contains(t, string(out), fmt.Sprintf("fault to open: %.1f s", report.Breaker.FaultToOpenSeconds))
		assert.NotContains(t, string(out), "\x1b", "no control sequences in a pipe")
	})
	t.Logf("%s", text)
}

// demoReport has the documented fields of demo-report.json.
type demoReport struct {
	Speed       float64 `json:"speed"`
	Healthy     demoAct `json:"healthy"`
	Unprotected demoAct `json:"unprotected"`
	Protected   demoAct `json:"protected"`
	Recovery    demoAct `json:"recovery"`
	Breaker     struct {
		LatencyThresholdSeconds float64 `json:"latency_threshold_seconds"`
		FaultToOpenSeconds      float64 `json:"fault_to_open_seconds"`
		RepairToClosedSeconds   float64 `json:"repair_to_closed_seconds"`
		Transitions             []struct {
			AtSeconds float64 `json:"at_seconds"`
			From      string  `json:"from"`
			To        string  `json:"to"`
			Reason    string  `json:"reason"`
		} `json:"transitions"`
	} `json:"breaker"`
}

type demoAct struct {
	Runs                   int     `json:"runs"`
	RunSecondsMedian       float64 `json:"run_seconds_median"`
	RunSecondsMax          float64 `json:"run_seconds_max"`
	RunRatioMedian         float64 `json:"run_ratio_median"`
	RunRatioMaxOnceOpen    float64 `json:"run_ratio_max_once_open"`
	ToolCalls              int     `json:"tool_calls"`
	CustomerCallsReached   int     `json:"customer_calls_reached"`
	CustomerCallsWhileOpen int     `json:"customer_calls_while_open"`
	ProbeCalls             int     `json:"probe_calls"`
	SlotSecondsWaiting     float64 `json:"slot_seconds_waiting"`
	PartialAnswers         int     `json:"partial_answers"`
	Escalations            int     `json:"escalations"`
}

// requireKeys checks that the report contains every documented key, including those with
// a zero value.
func requireKeys(t *testing.T, text []byte) {
	t.Helper()
	documented, err := json.Marshal(demoReport{})
	require.NoError(t, err)
	var want, have map[string]any
	require.NoError(t, json.Unmarshal(documented, &want))
	require.NoError(t, json.Unmarshal(text, &have))
	for key, value := range want {
		require.Contains(t, have, key)
		if part, ok := value.(map[string]any); ok {
			for name := range part {
				require.Contains(t, have[key], name, key)
			}
		}
	}
	for _, transition := range have["breaker"].(map[string]any)["transitions"].([]any) {
		for _, name := range []string{"at_seconds", "from", "to", "reason"} {
			require.Contains(t, transition, name)
		}
	}
}

// rootElement returns the name of the root element of a well-formed document.
func rootElement(t *testing.T, document []byte) string {
	t.Helper()
	root := ""
	decoder := xml.NewDecoder(bytes.NewReader(document))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return root
		}
		require.NoError(t, err, "well-formed XML")
		if start, ok := token.(xml.StartElement); ok && root == "" {
			root = start.Name.Local
		}
	}
}
