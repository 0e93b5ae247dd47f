package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestYourOwnService compares the service in docs/your-own-service.md with examples/faults, which is tested. The page
// has another path of the module, another name of the package, and only the replacements in its go.mod.
func TestYourOwnService(t *testing.T) {
	path := filepath.Join(root, "docs/your-own-service.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	place := regexp.MustCompile(`(?s)(<!-- from ([\w.]+) -->\n)(.*?)(<!-- end -->)`)
	require.Len(t, place.FindAll(text, -1), 2)
	want := place.ReplaceAllStringFunc(string(text), func(match string) string {
		m := place.FindStringSubmatch(match)
		source, err := os.ReadFile(filepath.Join(root, "examples", strings.Replace("faults/"+m[2], "faults/go.mod", "go.mod", 1)))
		require.NoError(t, err)
		return m[1] + serviceBlock(t, m[2], string(source)) + m[4]
	})
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text), "go test ./internal/doctest -run YourOwnService -update writes the page anew")
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
