package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = ".."

// functions gives the functions and methods that a file declares.
func functions(t *testing.T, file string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, declaration := range parsed.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok {
			names[f.Name.Name] = true
		}
	}
	return names
}

// named gives the functions that the design names, by file: those after a file's path
// in the picture, and those in code style after it in a table's row.
func named(design string) map[string][]string {
	all := map[string][]string{}
	inPicture := regexp.MustCompile(`([a-z/]+/[a-z]+\.go) +(\w+(?:, \w+)*)`)
	for _, match := range inPicture.FindAllStringSubmatch(design, -1) {
		all[match[1]] = append(all[match[1]], strings.Split(match[2], ", ")...)
	}
	inTable := regexp.MustCompile("`([a-z/]+/[a-z]+\\.go)`(?: \\|)?((?:,? `\\w+`)+)")
	for _, match := range inTable.FindAllStringSubmatch(design, -1) {
		all[match[1]] = append(all[match[1]], regexp.MustCompile(`\w+`).FindAllString(match[2], -1)...)
	}
	return all
}

func TestDesignNamesExist(t *testing.T) {
	t.Parallel()
	design, err := os.ReadFile(filepath.Join(root, "docs/design.md"))
	require.NoError(t, err)
	all := named(string(design))
	total := 0
	for file, names := range all {
		declared := functions(t, file)
		for _, name := range names {
			total++
			assert.True(t, declared[name], "%s declares no function %s", file, name)
		}
	}
	// The picture's and the tables' names were found.
	assert.Contains(t, all["breaker/permit.go"], "Allow")
	assert.Contains(t, all["fleet/verdict.go"], "Outliers")
	assert.Contains(t, all["fleet/poll.go"], "Sampled")
	assert.Greater(t, total, 50)
}
