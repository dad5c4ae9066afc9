//go:build !noserver

package devserver

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// serverLogger gives the Temporal server a slog.Logger to write to.
//
// The server calls Fatal where it cannot go on and counts on it never to
// return. An embedded server must not end the process it is a guest in, so
// Fatal ends the calling goroutine and keeps the first reason for Start.
type serverLogger struct {
	to *slog.Logger
	*serverLogState
}

// serverLogState is shared by all loggers of one server.
type serverLogState struct {
	fatal atomic.Pointer[fatalError]

	// quiet turns warnings and errors down to debug messages, until the
	// server is ready and again when it stops: services that start or stop
	// one after another complain of each other, and a start that fails is an
	// error of Start.
	quiet atomic.Bool
}

type fatalError struct {
	message string
	attrs   []slog.Attr
}

func (e *fatalError) Error() string {
	s := e.message
	for _, a := range e.attrs {
		s += fmt.Sprintf("; %s: %v", a.Key, a.Value)
	}
	return s
}

func newServerLogger(to *slog.Logger) serverLogger {
	l := serverLogger{to, new(serverLogState)}
	l.quiet.Store(true)
	return l
}

func (l serverLogger) Debug(msg string, tags ...tag.Tag)  { l.write(slog.LevelDebug, msg, tags) }
func (l serverLogger) Info(msg string, tags ...tag.Tag)   { l.write(slog.LevelInfo, msg, tags) }
func (l serverLogger) Warn(msg string, tags ...tag.Tag)   { l.write(slog.LevelWarn, msg, tags) }
func (l serverLogger) Error(msg string, tags ...tag.Tag)  { l.write(slog.LevelError, msg, tags) }
func (l serverLogger) DPanic(msg string, tags ...tag.Tag) { l.write(slog.LevelError, msg, tags) }

func (l serverLogger) Panic(msg string, tags ...tag.Tag) {
	l.write(slog.LevelError, msg, tags)
	panic(msg)
}

func (l serverLogger) Fatal(msg string, tags ...tag.Tag) {
	l.write(slog.LevelError, msg, tags)
	l.fatal.CompareAndSwap(nil, &fatalError{msg, attrs(tags)})
	runtime.Goexit()
}

func (l serverLogger) With(tags ...tag.Tag) log.Logger {
	return serverLogger{slog.New(l.to.Handler().WithAttrs(attrs(tags))), l.serverLogState}
}

func (l serverLogger) write(level slog.Level, msg string, tags []tag.Tag) {
	if l.quiet.Load() {
		level = min(level, slog.LevelDebug)
	}
	ctx := context.Background()
	if l.to.Enabled(ctx, level) { // the server's tags are costly to read
		l.to.LogAttrs(ctx, level, msg, attrs(tags)...)
	}
}

func attrs(tags []tag.Tag) []slog.Attr {
	out := make([]slog.Attr, len(tags))
	for i, t := range tags {
		out[i] = slog.Any(t.Key(), t.Value())
	}
	return out
}

// warningsOnly drops what is below a warning, whatever the handler would take.
type warningsOnly struct{ slog.Handler }

func (h warningsOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

func (h warningsOnly) WithAttrs(as []slog.Attr) slog.Handler {
	return warningsOnly{h.Handler.WithAttrs(as)}
}

func (h warningsOnly) WithGroup(name string) slog.Handler {
	return warningsOnly{h.Handler.WithGroup(name)}
}

func (e *fatalError) isListenError() bool {
	return e.message == "Failed to start gRPC listener"
}
