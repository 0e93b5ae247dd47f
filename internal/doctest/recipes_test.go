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

// TestCodeOfExamples compares the code in documents with the tested examples. A document has the file <!-- from folder/name -->
// without its package clause and imports, or the beginning of go.mod.
func TestCodeOfExamples(t *testing.T) {
	for document, places := range map[string]int{"docs/recipes.md": 4, "docs/your-own-service.md": 2} {
		path := filepath.Join(root, document)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		place := regexp.MustCompile(`(?s)(<!-- from ([\w./]+) -->\n)(.*?)(<!-- end -->)`)
		require.Len(t, place.FindAll(text, -1), places, document)
		want := place.ReplaceAllStringFunc(string(text), func(match string) string {
			m := place.FindStringSubmatch(match)
			source, err := os.ReadFile(filepath.Join(root, "examples", m[2]))
			require.NoError(t, err)
			block := codeBlock
			if m[2] == "go.mod" {
				block = moduleBlock
			}
			return m[1] + block(t, string(source)) + m[4]
		})
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
			continue
		}
		require.Equal(t, want, string(text), "go test ./internal/doctest -run CodeOfExamples -update writes %s anew", document)
	}
}

func codeBlock(t *testing.T, source string) string {
	t.Helper()
	_, code, ok := strings.Cut(source, "\n)\n\n") // behind the imports
	require.True(t, ok)
	return "```go\n" + code + "```\n"
}

// moduleBlock returns the code block for the go.mod of a copy.
func moduleBlock(t *testing.T, source string) string {
	t.Helper()
	version := regexp.MustCompile(`(?m)^go .*\n`).FindString(source)
	replacements := regexp.MustCompile(`(?m)^\t\S+ => \.\.(/faultinject)?\n`).FindAllString(source, -1)
	require.Len(t, replacements, 2)
	block := strings.ReplaceAll(strings.Join(replacements, ""), "..", "/path/of/the/clone")
	return "```text\nmodule example.com/service\n\n" + version + "\nreplace (\n" + block + ")\n```\n"
}

// A module of its own cannot import internal packages, so the document names the files that do.
func TestServiceCanBeCopied(t *testing.T) {
	page := squeezed(strings.Join(read(t, "docs/your-own-service.md").lines, " "))
	files, err := filepath.Glob(filepath.Join(root, "examples/service/*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(source), `"github.com/quorumlock/quorumlock/internal/`) {
			require.Contains(t, page, "Copy it without "+filepath.Base(file))
		}
	}
}
