package e2e_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

// logCapture records the log lines at level Warn and above.
type logCapture struct {
	mu    sync.Mutex
	lines []string
}

func (l *logCapture) logger() log.Logger { return log.NewStructuredLogger(slog.New(l)) }

// with returns the lines that contain a text.
func (l *logCapture) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.lines), func(line string) bool { return !strings.Contains(line, text) })
}

func (l *logCapture) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}
func (l *logCapture) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *logCapture) WithGroup(string) slog.Handler      { return l }

func (l *logCapture) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// metricCounts records counters by metric and activity type. It ignores gauges and
// timers.
type metricCounts struct {
	mu     *sync.Mutex
	counts map[string]int64
	tags   map[string]string
}

func newMetricCounts() *metricCounts {
	return &metricCounts{mu: &sync.Mutex{}, counts: map[string]int64{}}
}

// count returns a counter's value for an activity type.
func (m *metricCounts) count(name, activityType string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[name+" "+activityType]
}

func (m *metricCounts) WithTags(tags map[string]string) client.MetricsHandler {
	all := map[string]string{}
	for _, some := range []map[string]string{m.tags, tags} {
		for k, v := range some {
			all[k] = v
		}
	}
	return &metricCounts{mu: m.mu, counts: m.counts, tags: all}
}

func (m *metricCounts) Counter(name string) client.MetricsCounter {
	return counter(func(n int64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.counts[name+" "+m.tags["activity_type"]] += n
	})
}

func (m *metricCounts) Gauge(string) client.MetricsGauge { return gauge{} }
func (m *metricCounts) Timer(string) client.MetricsTimer { return timer{} }

type (
	counter func(int64)
	gauge   struct{}
	timer   struct{}
)

func (c counter) Inc(n int64)      { c(n) }
func (gauge) Update(float64)       {}
func (timer) Record(time.Duration) {}
