package devserver

import (
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
)

// DefaultNamespace is the namespace of a server whose options name none.
const DefaultNamespace = "default"

// Options configure an embedded server. The zero value is a server in memory with
// its UI, on the ports 7233 and 8233 of 127.0.0.1 or on another free pair.
type Options struct {
	// DBFile is the SQLite file that holds all state. A missing file is created; its
	// directory must exist. An existing file must hold a Temporal server's state. Only
	// one server at a time can use a file. Empty: state is in memory until Stop.
	DBFile string

	// Port is the port for clients, UIPort the port for browsers. Start fails if a given
	// port is taken. Zero: 7233 for clients and Port+1000 for browsers, or another free
	// pair if one of the two is taken.
	Port, UIPort int

	// Namespace is created if it does not exist. Empty: DefaultNamespace.
	Namespace string

	// SearchAttributes are registered in Namespace before the server starts, so the
	// first workflow can use them. Start fails if one exists with another type.
	SearchAttributes map[string]enumspb.IndexedValueType

	// NoUI disables the web UI.
	NoUI bool

	// TimerResolution is the shortest duration that the server can time: a shorter
	// timer, timeout or retry delay takes this long. A shorter resolution costs more
	// database reads. Zero: one second, the server's default. The minimum is 1 ms.
	TimerResolution time.Duration

	// DynamicConfig sets further keys of the server's dynamic configuration, such as
	// "frontend.namespaceCount": 20. It overrides this package's own settings. The
	// server ignores unknown keys.
	DynamicConfig map[string]any

	// Logger receives the log of the server and its UI. The server logs a lot below
	// slog.LevelWarn. Nil: warnings and errors go to slog.Default().
	Logger *slog.Logger
}
