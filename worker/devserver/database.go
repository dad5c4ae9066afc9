//go:build !noserver

package devserver

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/common/resolver"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// database is one server's SQLite database.
//
// The server's SQLite plugin keeps one connection per database open until the process
// ends. So an in-memory database outlives its server, and release empties it. A file
// stays locked against other processes. A file that was deleted meanwhile would be
// written invisibly, so openDatabase refuses it.
type database struct {
	config *config.SQL
	file   string // absolute; empty in memory
}

// filesInUse holds the files of this process's running servers. SQLite's lock does not
// exclude a second server in this process, which would share the connection.
var filesInUse sync.Map // absolute path → struct{}

func openDatabase(file string) (*database, error) {
	if file == "" {
		return &database{config: &config.SQL{
			PluginName:   sqliteplugin.PluginName,
			DatabaseName: primitives.NewUUID().String(), // unique, because servers of one process would share the name's memory
			ConnectAttributes: map[string]string{
				"mode":  "memory",
				"cache": "shared",
			},
		}}, nil
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("database file %s: %w", file, err)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("database file %s: its directory cannot be used: create it first: %w", path, err)
	}
	if _, taken := filesInUse.LoadOrStore(path, struct{}{}); taken {
		return nil, fmt.Errorf("database file %s is in use by another server of this process: stop that server, or use another DBFile", path)
	}
	d := &database{file: path, config: &config.SQL{
		PluginName:   sqliteplugin.PluginName,
		DatabaseName: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath(), // it becomes part of a URI
		ConnectAttributes: map[string]string{
			"mode": "rwc",
			// Two servers on one file would steal the only shard from each other for
			// ever. With an exclusive lock the second one cannot open the file.
			"locking_mode": "exclusive",
			// Without these two settings every transition waits for the disk. A crash of
			// the machine may lose the last writes, but does not corrupt the database.
			"journal_mode": "wal",
			"synchronous":  "normal",
		},
	}}
	if err := d.ensureSchema(); err != nil {
		filesInUse.Delete(path)
		return nil, err
	}
	return d, nil
}

func (d *database) ensureSchema() error {
	err := d.admin(func(db sqlplugin.AdminDB) error {
		// There is only one connection, so all statements are in this transaction. A
		// killed start leaves no partial schema. It also takes the file's lock.
		if err := db.Exec("BEGIN EXCLUSIVE"); err != nil {
			return err
		}
		if err := setUpSchema(db); err != nil {
			_ = db.Exec("ROLLBACK")
			return err
		}
		return db.Exec("COMMIT")
	})
	if err == nil {
		if _, stat := os.Stat(d.file); stat != nil {
			err = errors.New("it was removed while this process had it open: restart the process, or use another DBFile")
		}
	}
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "SQLITE_BUSY"):
		return fmt.Errorf("database file %s is in use by another process: stop that process, or use another DBFile: %w", d.file, err)
	default:
		return fmt.Errorf("database file %s cannot be used: %w", d.file, err)
	}
}

func setUpSchema(db sqlplugin.AdminDB) error {
	tables, err := db.ListTables("")
	switch {
	case err != nil:
		return err
	case len(tables) == 0:
		return sqliteschema.SetupSchemaOnDB(db)
	case !slices.Contains(tables, "namespaces"):
		return errors.New("it does not hold a Temporal server's state: use another DBFile")
	}
	return nil
}

// emptyDatabase frees all memory but a page. DROP TABLE would fail for the tables of a
// full-text index.
const emptyDatabase = "PRAGMA writable_schema=ON; DELETE FROM sqlite_master; PRAGMA writable_schema=OFF; VACUUM"

// release frees what the plugin's open connection holds. The server must have stopped.
func (d *database) release() error {
	if d.file == "" {
		return d.admin(func(db sqlplugin.AdminDB) error { return db.Exec(emptyDatabase) })
	}
	defer filesInUse.Delete(d.file)
	// After this the file alone holds all state and can be copied.
	err := d.admin(func(db sqlplugin.AdminDB) error { return db.Exec("PRAGMA wal_checkpoint(TRUNCATE)") })
	if err != nil {
		return fmt.Errorf("database file %s: part of the state is still in its -wal file: keep both files: %w", d.file, err)
	}
	return nil
}

func (d *database) admin(use func(sqlplugin.AdminDB) error) error {
	db, err := sql.NewSQLAdminDB(sqlplugin.DbKindUnknown, d.config, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return use(db)
}
