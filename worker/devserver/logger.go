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

// serverLogger passes the Temporal server's log to a slog.Logger.
//
// The server expects that Fatal does not return. An embedded server must not end the
// process, so Fatal ends the calling goroutine and keeps the first error for Start.
type serverLogger struct {
	to *slog.Logger
	*serverLogState
}

// serverLogState is shared by all loggers of one server.
type serverLogState struct {
	fatal atomic.Pointer[fatalError]

	// quiet logs warnings and errors at debug level while the server starts or stops.
	// Services that are not yet or no longer running cause many of them.
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
	if l.to.Enabled(ctx, level) { // reading the server's tags is expensive
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

// warningsOnly drops records below slog.LevelWarn.
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
