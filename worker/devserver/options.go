package devserver

import (
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
)

// DefaultNamespace is the namespace of a server whose options name none.
const DefaultNamespace = "default"

// Options configure an embedded server. The zero value is a server in memory
// with its UI, at 127.0.0.1:7233 and 127.0.0.1:8233 or another free pair of
// ports.
type Options struct {
	// DBFile is the SQLite file that holds all state. A missing file is
	// created, its directory is not; an existing one must come from a
	// Temporal server and is continued. One server at a time can use a file.
	// Empty: in memory, gone with Stop.
	DBFile string

	// Port is where clients connect, UIPort where browsers do. A port given
	// here and taken is an error. Zero: 7233 for clients and 1000 above that
	// for browsers, or another free pair when one of the two is taken.
	Port, UIPort int

	// Namespace is created when it is missing. Empty: DefaultNamespace.
	Namespace string

	// SearchAttributes are registered on Namespace before the server starts,
	// so the first workflow can use them. Registering one that exists with
	// the same type does nothing; with another type it is an error.
	SearchAttributes map[string]enumspb.IndexedValueType

	// NoUI leaves the web UI out.
	NoUI bool

	// TimerResolution is the shortest wait the server can time: a timer, a
	// timeout or a retry delay below it takes this long, longer ones end when
	// they should. Shorter steps cost database reads. Zero: the server's
	// default of one second. Below a millisecond is an error.
	TimerResolution time.Duration

	// DynamicConfig sets what else the server can be told by name, such as
	// "frontend.namespaceCount": 20 for few callers waiting at once, and comes
	// before this package's own settings. The server ignores names that it
	// does not know.
	DynamicConfig map[string]any

	// Logger receives what the server and its UI log, as far as its handler
	// is enabled for it; the server is talkative below slog.LevelWarn. Nil:
	// warnings and errors go to slog.Default(). To silence it, give a logger
	// with slog.DiscardHandler.
	Logger *slog.Logger
}
