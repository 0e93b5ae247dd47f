package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/internal/redisproc"
)

// TestReadmeProgram follows the README as a new user does: five fresh servers, the command init, and the program
// copied from the page.
func TestReadmeProgram(t *testing.T) {
	var addresses []string
	for _, s := range redisproc.StartN(t, 5) {
		addresses = append(addresses, s.Addr())
	}
	nodes := "QUORUMLOCK_NODES=" + strings.Join(addresses, ",")
	run(t, nodes, "./cmd/quorumlock", "init")

	code, _ := read(t, "README.md").blocks()
	dir := t.TempDir()
	program := filepath.Join(dir, "main.go")
	for _, b := range code {
		if strings.HasPrefix(b.text, "package main") {
			require.Contains(t, b.text, "30 * time.Second")
			text := strings.Replace(b.text, "30 * time.Second", "time.Millisecond", 1)
			require.NoError(t, os.WriteFile(program, []byte(text), 0o600))
		}
	}
	require.Regexp(t, `^\S+ \S+ writing\n$`, run(t, nodes, program))
}

// run runs a Go program, and returns its output.
func run(t *testing.T, env string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run"}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestQuickStartCommandsNeverChange checks the two commands of the quick start, which must never change.
func TestQuickStartCommandsNeverChange(t *testing.T) {
	code, _ := read(t, "README.md").blocks()
	var all []string
	for _, b := range code {
		all = append(all, strings.TrimSpace(b.text))
	}
	require.Contains(t, all, "go run ./cmd/quorumlock demo")
	require.Contains(t, all, "make test")
}

// TestMakeTargets checks that the Makefile has each target that a document names.
func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	named := regexp.MustCompile("(?m)(?:`|^    )make ([a-z-]+)\\b")
	found := 0
	for _, d := range documents(t) {
		for _, match := range named.FindAllStringSubmatch(strings.Join(d.lines, "\n"), -1) {
			found++
			require.Regexp(t, "(?m)^"+match[1]+":", string(makefile), "%s names make %s", d.path, match[1])
		}
	}
	require.Greater(t, found, 10, "the search finds too few names")
}

func TestIndex(t *testing.T) {
	index := strings.Join(read(t, "docs/README.md").lines, "\n")
	for _, d := range documents(t) {
		if name, ok := strings.CutPrefix(d.path, "docs/"); ok && !strings.Contains(name, "/") && name != "README.md" {
			require.Contains(t, index, "]("+name+")", "docs/README.md must list it")
		}
	}
}
