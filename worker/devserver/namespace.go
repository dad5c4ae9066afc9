//go:build !noserver

package devserver

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
	"go.temporal.io/server/common/persistence/serialization"
	"go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/primitives/timestamp"
	"go.temporal.io/server/common/resolver"
	"go.temporal.io/server/common/searchattribute/sadefs"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// retention is how long closed workflows are kept.
const retention = 7 * 24 * time.Hour

// ensureNamespace creates the namespace, or adds missing search attributes to an
// existing one.
//
// It writes to the database before the server starts, because each service of the
// server caches the namespaces at its start.
func (d *database) ensureNamespace(ctx context.Context, name string, attributes map[string]enumspb.IndexedValueType) error {
	db, err := sql.NewSQLDB(sqlplugin.DbKindMain, d.config, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()

	rows, err := db.SelectFromNamespace(ctx, sqlplugin.NamespaceFilter{Name: &name})
	switch {
	case errors.Is(err, stdsql.ErrNoRows):
		return d.createNamespace(name, attributes)
	case err != nil:
		return err
	}
	row := rows[0]
	serializer := serialization.NewSerializer()
	detail, err := serializer.NamespaceDetailFromBlob(persistence.NewDataBlob(row.Data, row.DataEncoding))
	if err != nil {
		return err
	}
	aliases, err := addAliases(detail.Config.CustomSearchAttributeAliases, attributes)
	if err != nil {
		return err
	}
	if maps.Equal(aliases, detail.Config.CustomSearchAttributeAliases) {
		return nil
	}
	detail.Config.CustomSearchAttributeAliases = aliases
	detail.ConfigVersion++
	blob, err := serializer.NamespaceDetailToBlob(detail)
	if err != nil {
		return err
	}
	row.Data, row.DataEncoding = blob.Data, blob.EncodingType.String()
	_, err = db.UpdateNamespace(ctx, &row)
	return err
}

func (d *database) createNamespace(name string, attributes map[string]enumspb.IndexedValueType) error {
	aliases, err := addAliases(nil, attributes)
	if err != nil {
		return err
	}
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, name, false, nil)
	if err != nil {
		return err
	}
	ns.Detail.Config.Retention = timestamp.DurationPtr(retention)
	ns.Detail.Config.CustomSearchAttributeAliases = aliases
	return sqliteschema.CreateNamespaces(d.config, ns)
}

// addAliases adds attributes to aliases. A SQL database has a fixed set of typed
// columns for custom search attributes. An alias is a namespace's name for a column.
func addAliases(aliases map[string]string, attributes map[string]enumspb.IndexedValueType) (map[string]string, error) {
	columns := sadefs.GetDBIndexSearchAttributes(nil).CustomSearchAttributes
	columnOf := make(map[string]string, len(aliases))
	for column, name := range aliases {
		columnOf[name] = column
	}
	added := maps.Clone(aliases)
	if added == nil {
		added = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		want := attributes[name]
		if sadefs.IsReserved(name) {
			return nil, fmt.Errorf("search attribute %s: Temporal reserves this name: use another name", name)
		}
		if column, ok := columnOf[name]; ok {
			if has := columns[column]; has != want {
				return nil, fmt.Errorf("search attribute %s is registered as %v, not as %v: use another name, or a new database", name, has, want)
			}
			continue
		}
		column, ok := freeColumn(columns, added, want)
		if !ok {
			return nil, fmt.Errorf("search attribute %s: the database has no free column of type %v", name, want)
		}
		added[column] = name
	}
	return added, nil
}

func freeColumn(columns map[string]enumspb.IndexedValueType, taken map[string]string, want enumspb.IndexedValueType) (string, bool) {
	for _, column := range slices.Sorted(maps.Keys(columns)) {
		if _, used := taken[column]; !used && columns[column] == want {
			return column, true
		}
	}
	return "", false
}
