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
	// refresh is how often live state is drawn on a terminal.
	refresh = 200 * time.Millisecond
	// lineEvery is how often a plain line tells it elsewhere.
	lineEvery = 5 * time.Second
)

// teller tells the story: live state on a terminal, plain lines elsewhere.
type teller struct {
	out      io.Writer
	terminal bool
	story    *story
	area     *pterm.AreaPrinter

	mu     sync.Mutex
	plugin *interceptor.Plugin
	told   int

	quit, done chan struct{}
	once       sync.Once
}

func newTeller(out io.Writer, terminal bool, s *story) *teller {
	t := &teller{out: out, terminal: terminal, story: s, quit: make(chan struct{}), done: make(chan struct{})}
	every := lineEvery
	if !terminal {
		pterm.DisableStyling()
	} else {
		every = refresh
		// The only error is a second area at a time.
		t.area, _ = pterm.DefaultArea.Start()
	}
	go t.run(every)
	return t
}

func (t *teller) run(every time.Duration) {
	defer close(t.done)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-t.quit:
			return
		case <-ticker.C:
		}
		t.mu.Lock()
		line := t.state()
		if t.terminal {
			t.area.Update(line)
		} else {
			fmt.Fprintln(t.out, line)
		}
		t.mu.Unlock()
	}
}

// close ends live state; what is told after it stays.
func (t *teller) close() {
	t.once.Do(func() {
		close(t.quit)
		<-t.done
		if t.area != nil {
			_ = t.area.Stop()
		}
	})
}

// watch sets whose breakers the live state shows; nil: none.
func (t *teller) watch(p *interceptor.Plugin) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.plugin = p
}

// act begins an act.
func (t *teller) act(name, text string) {
	t.line(fmt.Sprintf("== %s: %s", name, text))
}

// line tells something that stays.
func (t *teller) line(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.terminal {
		t.area.Clear()
	}
	fmt.Fprintln(t.out, text)
}

// state is where everything stands, with the breaker's edges since last time.
func (t *teller) state() string {
	s := t.story
	s.mu.Lock()
	running, done, edges := s.running, s.done, s.edges
	s.mu.Unlock()
	var b strings.Builder
	for _, e := range edges[t.told:] {
		fmt.Fprintf(&b, "   %6.1f s  breaker %s: %s → %s", s.at(e.At), e.Key, e.From, e.To)
		if e.To == breaker.Open {
			fmt.Fprintf(&b, " (%s)", e.Reason)
		}
		b.WriteString("\n")
	}
	if !t.terminal {
		t.told = len(edges)
	}
	fmt.Fprintf(&b, "   %6.1f s  runs: %d under way, %d done", s.at(time.Now()), running, done)
	if t.plugin != nil {
		for _, snapshot := range t.plugin.Breakers() {
			if snapshot.Key == carrierKey {
				fmt.Fprintf(&b, "; breaker %s%s", snapshot.State, t.next(snapshot))
			}
		}
	} else {
		b.WriteString("; no breaker")
	}
	return b.String()
}

func (t *teller) next(s breaker.Snapshot) string {
	left := max(0, t.story.seconds(time.Until(s.Next)))
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

// table tells the end.
func (t *teller) table(r Report) {
	row := func(name string, value func(Act) string) []string {
		return []string{name, value(r.Healthy), value(r.Unprotected), value(r.Protected), value(r.Recovery)}
	}
	count := func(get func(Act) int) func(Act) string {
		return func(a Act) string { return fmt.Sprint(get(a)) }
	}
	data := pterm.TableData{
		{"seconds of the story", "healthy", "outage, no breaker", "outage, breaker", "recovery"},
		row("runs", count(func(a Act) int { return a.Runs })),
		row("run, median", func(a Act) string { return fmt.Sprintf("%.1f s", a.RunSecondsMedian) }),
		row("run, longest", func(a Act) string { return fmt.Sprintf("%.1f s", a.RunSecondsMax) }),
		row("run, median to healthy", func(a Act) string { return fmt.Sprintf("%.2f ×", a.RunRatioMedian) }),
		row("longest begun once open, to healthy", func(a Act) string {
			if a.RunRatioMaxOnceOpen == 0 {
				return "-"
			}
			return fmt.Sprintf("%.2f ×", a.RunRatioMaxOnceOpen)
		}),
		row("tool calls by models", count(func(a Act) int { return a.ToolCalls })),
		row("customers' calls that reached the carrier", count(func(a Act) int { return a.CustomerCallsReached })),
		row("… of them while open or half-open", count(func(a Act) int { return a.CustomerCallsWhileOpen })),
		row("probes that reached the carrier", count(func(a Act) int { return a.ProbeCalls })),
		row("slot seconds held for nothing", func(a Act) string { return fmt.Sprintf("%.0f s", a.SlotSecondsWaiting) }),
		row("partial answers", count(func(a Act) int { return a.PartialAnswers })),
		row("escalations", count(func(a Act) int { return a.Escalations })),
		row("empty answers", count(func(a Act) int { return a.EmptyAnswers })),
	}
	text, err := pterm.DefaultTable.WithHasHeader().WithData(data).Srender()
	if err != nil {
		text = err.Error()
	}
	fmt.Fprintf(t.out, "\n%s\n", strings.TrimRight(text, "\n"))
	fmt.Fprintf(t.out, "\nfault to open: %.1f s (latency threshold %.0f s); repair to closed: %.1f s, by itself\n",
		r.Breaker.FaultToOpenSeconds, r.Breaker.LatencyThresholdSeconds, r.Breaker.RepairToClosedSeconds)
}
