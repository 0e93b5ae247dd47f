package mutant_test

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/faultinject/mutant"
)

// This is what fails when the code moves on: bring the edit up to date then.
func TestEveryMutantFitsTheSource(t *testing.T) {
	for _, m := range mutant.All() {
		t.Run(m.Name, func(t *testing.T) {
			overlay, err := m.Apply(root, t.TempDir())
			require.NoError(t, err)
			for file, changed := range replaced(t, overlay) {
				before, err := os.ReadFile(file)
				require.NoError(t, err)
				after, err := os.ReadFile(changed)
				require.NoError(t, err)
				assert.NotEqual(t, string(before), string(after))
				if filepath.Ext(file) == ".go" {
					_, err := parser.ParseFile(token.NewFileSet(), file, after, parser.SkipObjectResolution)
					assert.NoError(t, err)
				}
			}
		})
	}
}

func TestEveryMutantIsDescribed(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range mutant.All() {
		assert.Regexp(t, `^[a-z]+(-[a-z]+)*$`, m.Name)
		assert.False(t, seen[m.Name], "%s is listed twice", m.Name)
		seen[m.Name] = true
		for _, text := range []string{m.Rule, m.Then} {
			assert.True(t, strings.HasSuffix(text, "."), "%s: %q is no sentence", m.Name, text)
		}
		assert.NotEmpty(t, m.Edits, m.Name)
		for _, e := range m.Edits {
			lua := filepath.Ext(e.File) == ".lua"
			assert.True(t, m.Real || !lua, "%s: the simulation has no scripts", m.Name)
			assert.Equal(t, m.World, strings.HasPrefix(e.File, "faultinject/"), "%s: %s", m.Name, e.File)
		}
	}
}

func TestApply(t *testing.T) {
	source := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(source, "sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(source, "sub", "a.go"), []byte("one two two three"), 0o600))
	edit := func(old, replacement string) mutant.Edit {
		return mutant.Edit{File: "sub/a.go", Old: old, New: replacement}
	}
	for name, test := range map[string]struct {
		edits []mutant.Edit
		want  string
		fails string
	}{
		"once":               {[]mutant.Edit{edit("one", "1")}, "1 two two three", ""},
		"one behind another": {[]mutant.Edit{edit("one", "1"), edit("1 two", "12")}, "12 two three", ""},
		"gone":               {[]mutant.Edit{edit("four", "4")}, "", "0 times"},
		"ambiguous":          {[]mutant.Edit{edit("one", "1"), edit("two", "2")}, "", "edit 2: sub/a.go has this 2 times"},
		"no such file":       {[]mutant.Edit{{File: "b.go", Old: "a", New: "b"}}, "", "b.go"},
	} {
		t.Run(name, func(t *testing.T) {
			overlay, err := mutant.Mutant{Name: "some", Edits: test.edits}.Apply(source, t.TempDir())
			if test.fails != "" {
				require.ErrorContains(t, err, "faultinject: mutant some: ")
				require.ErrorContains(t, err, test.fails)
				return
			}
			require.NoError(t, err)
			changed := replaced(t, overlay)[filepath.Join(source, "sub", "a.go")]
			text, err := os.ReadFile(changed)
			require.NoError(t, err)
			assert.Equal(t, test.want, string(text))
		})
	}
}

// replaced reads an overlay.
func replaced(t *testing.T, overlay string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(overlay)
	require.NoError(t, err)
	var read struct{ Replace map[string]string }
	require.NoError(t, json.Unmarshal(text, &read))
	require.NotEmpty(t, read.Replace)
	return read.Replace
}
