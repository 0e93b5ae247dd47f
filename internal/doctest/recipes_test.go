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

// TestRecipes compares the code in docs/recipes.md with the tested examples.
func TestRecipes(t *testing.T) {
	path := filepath.Join(root, "docs/recipes.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	place := regexp.MustCompile(`(?s)(<!-- from (\w+\.go) -->\n)(.*?)(<!-- end -->)`)
	require.Len(t, place.FindAll(text, -1), 3)
	want := place.ReplaceAllStringFunc(string(text), func(match string) string {
		m := place.FindStringSubmatch(match)
		source, err := os.ReadFile(filepath.Join(root, "examples/recipes", m[2]))
		require.NoError(t, err)
		_, code, ok := strings.Cut(string(source), "\n)\n\n") // behind the imports
		require.True(t, ok)
		return m[1] + "```go\n" + code + "```\n" + m[4]
	})
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text), "go test ./internal/doctest -run Recipes -update writes docs/recipes.md anew")
}
