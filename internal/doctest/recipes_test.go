package doctest

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the code of examples into the documents")

// TestCodeOfExamples compares the code in documents with the tested examples. A document has the file <!-- from name -->
// without its package clause and imports, but docs/your-own-service.md has whole files, in a package of another name.
func TestCodeOfExamples(t *testing.T) {
	for document, c := range map[string]struct {
		dir    string
		places int
		block  func(t *testing.T, name, source string) string
	}{
		"docs/recipes.md":          {"recipes", 4, recipeBlock},
		"docs/your-own-service.md": {"faults", 2, serviceBlock},
	} {
		path := filepath.Join(root, document)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		place := regexp.MustCompile(`(?s)(<!-- from ([\w.]+) -->\n)(.*?)(<!-- end -->)`)
		require.Len(t, place.FindAll(text, -1), c.places, document)
		want := place.ReplaceAllStringFunc(string(text), func(match string) string {
			m := place.FindStringSubmatch(match)
			file := filepath.Join(root, "examples", c.dir, m[2])
			if m[2] == "go.mod" {
				file = filepath.Join(root, "examples", m[2])
			}
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			return m[1] + c.block(t, m[2], string(source)) + m[4]
		})
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
			continue
		}
		require.Equal(t, want, string(text), "go test ./internal/doctest -run CodeOfExamples -update writes %s anew", document)
	}
}

func recipeBlock(t *testing.T, _, source string) string {
	t.Helper()
	_, code, ok := strings.Cut(source, "\n)\n\n") // behind the imports
	require.True(t, ok)
	return "```go\n" + code + "```\n"
}

// serviceBlock returns the code block for a file of examples/faults.
func serviceBlock(t *testing.T, name, source string) string {
	t.Helper()
	if name != "go.mod" {
		_, code, ok := strings.Cut("\n"+source, "\npackage faults\n") // behind the package comment
		require.True(t, ok)
		return "```go\npackage service\n" + code + "```\n"
	}
	version := regexp.MustCompile(`(?m)^go .*\n`).FindString(source)
	replacements := regexp.MustCompile(`(?m)^\t\S+ => \.\.(/faultinject)?\n`).FindAllString(source, -1)
	require.Len(t, replacements, 2)
	block := strings.ReplaceAll(strings.Join(replacements, ""), "..", "/path/of/the/clone")
	return "```text\nmodule example.com/service\n\n" + version + "\nreplace (\n" + block + ")\n```\n"
}
