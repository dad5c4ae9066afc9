package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pterm/pterm"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
)

const (
	// terminalInterval is the time between two updates on a terminal.
	terminalInterval = 200 * time.Millisecond
	// lineInterval is the time between two status lines on other outputs.
	lineInterval = 5 * time.Second
)

// display prints the progress of a scenario: live status on a terminal, plain lines
// on other outputs.
type display struct {
	out      io.Writer
	terminal bool
	scenario *scenario
	area     *pterm.AreaPrinter

	mu     sync.Mutex
	plugin *interceptor.Plugin
	// printed counts the transitions that have been printed.
	printed int

	quit, done chan struct{}
	once       sync.Once
}

func newDisplay(out io.Writer, terminal bool, s *scenario) *display {
	d := &display{out: out, terminal: terminal, scenario: s, quit: make(chan struct{}), done: make(chan struct{})}
	interval := lineInterval
	if !terminal {
		pterm.DisableStyling()
	} else {
		interval = terminalInterval
		// The only error is that another area is active.
		d.area, _ = pterm.DefaultArea.Start()
	}
	go d.run(interval)
	return d
}

func (d *display) run(interval time.Duration) {
	defer close(d.done)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-ticker.C:
		}
		d.mu.Lock()
		line := d.status()
		if d.terminal {
			d.area.Update(line)
		} else {
			fmt.Fprintln(d.out, line)
		}
		d.mu.Unlock()
	}
}

// close ends the live status. Later lines are printed as they are.
func (d *display) close() {
	d.once.Do(func() {
		close(d.quit)
		<-d.done
		if d.area != nil {
			_ = d.area.Stop()
		}
	})
}

// watch sets the plugin whose breakers the status shows. Nil: none.
func (d *display) watch(p *interceptor.Plugin) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plugin = p
}

// phase prints the start of a phase.
func (d *display) phase(name, text string) {
	d.line(fmt.Sprintf("== %s: %s", name, text))
}

// line prints a permanent line.
func (d *display) line(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.terminal {
		d.area.Clear()
	}
	fmt.Fprintln(d.out, text)
}

// status describes the runs and the breaker, and the transitions since the last call.
func (d *display) status() string {
	s := d.scenario
	s.mu.Lock()
	running, done, transitions := s.running, s.done, s.transitions
	s.mu.Unlock()
	var b strings.Builder
	for _, transition := range transitions[d.printed:] {
		fmt.Fprintf(&b, "   %6.1f s  breaker %s: %s → %s", s.at(transition.At), transition.Key, transition.From, transition.To)
		if transition.To == breaker.Open {
			fmt.Fprintf(&b, " (%s)", transition.Reason)
		}
		b.WriteString("\n")
	}
	if !d.terminal {
		d.printed = len(transitions)
	}
	fmt.Fprintf(&b, "   %6.1f s  runs: %d running, %d done", s.at(time.Now()), running, done)
	if d.plugin != nil {
		for _, snapshot := range d.plugin.Breakers() {
			if snapshot.Key == carrierKey {
				fmt.Fprintf(&b, "; breaker %s%s", snapshot.State, d.nextStep(snapshot))
			}
		}
	} else {
		b.WriteString("; no breaker")
	}
	return b.String()
}

// nextStep says what the breaker does next, and when.
func (d *display) nextStep(s breaker.Snapshot) string {
	left := max(0, d.scenario.seconds(time.Until(s.Next)))
	switch s.State {
	case breaker.Open:
		return fmt.Sprintf(", next probe in %.0f s", left)
	case breaker.HalfOpen:
		return ", probing"
	case breaker.Recovering:
		return fmt.Sprintf(" at %d%%, next step in %.0f s", s.Share, left)
	}
	return ""
}

// table prints the report as a table.
func (d *display) table(r Report) {
	row := func(name string, value func(Phase) string) []string {
		return []string{name, value(r.Healthy), value(r.Unprotected), value(r.Protected), value(r.Recovery)}
	}
	count := func(get func(Phase) int) func(Phase) string {
		return func(p Phase) string { return fmt.Sprint(get(p)) }
	}
	data := pterm.TableData{
		{"simulated seconds", "healthy", "outage, no breaker", "outage, breaker", "recovery"},
		row("runs", count(func(p Phase) int { return p.Runs })),
		row("run, median", func(p Phase) string { return fmt.Sprintf("%.1f s", p.RunSecondsMedian) }),
		row("run, longest", func(p Phase) string { return fmt.Sprintf("%.1f s", p.RunSecondsMax) }),
		row("run, median / healthy median", func(p Phase) string { return fmt.Sprintf("%.2f ×", p.RunRatioMedian) }),
		row("run started while open, longest / healthy median", func(p Phase) string {
			if p.RunRatioMaxOnceOpen == 0 {
				return "-"
			}
			return fmt.Sprintf("%.2f ×", p.RunRatioMaxOnceOpen)
		}),
		row("tool calls by models", count(func(p Phase) int { return p.ToolCalls })),
		row("customer calls that reached the carrier", count(func(p Phase) int { return p.CustomerCallsReached })),
		row("customer calls while open or half-open", count(func(p Phase) int { return p.CustomerCallsWhileOpen })),
		row("probes that reached the carrier", count(func(p Phase) int { return p.ProbeCalls })),
		row("slot seconds used by failed calls", func(p Phase) string { return fmt.Sprintf("%.0f s", p.SlotSecondsWaiting) }),
		row("partial answers", count(func(p Phase) int { return p.PartialAnswers })),
		row("escalations", count(func(p Phase) int { return p.Escalations })),
		row("empty answers", count(func(p Phase) int { return p.EmptyAnswers })),
	}
	text, err := pterm.DefaultTable.WithHasHeader().WithData(data).Srender()
	if err != nil {
		text = err.Error()
	}
	fmt.Fprintf(d.out, "\n%s\n", strings.TrimRight(text, "\n"))
	fmt.Fprintf(d.out, "\nfault to open: %.1f s (latency threshold %.0f s); repair to closed: %.1f s\n",
		r.Breaker.FaultToOpenSeconds, r.Breaker.LatencyThresholdSeconds, r.Breaker.RepairToClosedSeconds)
}
