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
)

// This test fails when the code has changed. Then update the edit.
func TestEveryMutantFitsTheSource(t *testing.T) {
	source, err := filepath.Abs(root)
	require.NoError(t, err)
	for _, m := range mutants() {
		t.Run(m.Name, func(t *testing.T) {
			overlay, err := m.apply(root, t.TempDir())
			require.NoError(t, err)
			for file, changed := range replaced(t, overlay) {
				world := strings.HasPrefix(file, filepath.Join(source, "faultinject")+string(filepath.Separator))
				assert.Equal(t, m.World, world, file)
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
	for _, m := range mutants() {
		assert.Regexp(t, `^[a-z]+(-[a-z]+)*$`, m.Name)
		assert.False(t, seen[m.Name], "%s is listed twice", m.Name)
		seen[m.Name] = true
		for _, text := range []string{m.Rule, m.Then} {
			assert.True(t, strings.HasSuffix(text, "."), "%s: %q is no sentence", m.Name, text)
		}
		assert.NotEmpty(t, m.Edits, m.Name)
	}
}

// An edit finds its text wherever the code has moved to, and takes none of two.
func TestEditFindsItsText(t *testing.T) {
	source := t.TempDir()
	for file, text := range map[string]string{
		"sub/a.go":                       "one two two three",
		"sub/b.go":                       "five six",
		"sub/a_test.go":                  "one four",
		"c.go":                           "five seven",
		"scripts/d.lua":                  "eight",
		"e.md":                           "one eight",
		".cache/f.go":                    "one eight",
		"faultinject/sim/server.go":      "one nine",
		"faultinject/mutant/list_all.go": "one eight nine",
	} {
		path := filepath.Join(source, filepath.FromSlash(file))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	swap := func(file, old, replacement string) edit {
		return edit{File: file, Old: old, New: replacement}
	}
	for name, test := range map[string]struct {
		edits []edit
		world bool
		want  map[string]string
		fails string
	}{
		"in the file of the hint":      {edits: []edit{swap("c.go", "five", "5")}, want: map[string]string{"c.go": "5 seven"}},
		"without a hint":               {edits: []edit{swap("", "one", "1")}, want: map[string]string{"sub/a.go": "1 two two three"}},
		"in a script":                  {edits: []edit{swap("", "eight", "8")}, want: map[string]string{"scripts/d.lua": "8"}},
		"moved out of the hint":        {edits: []edit{swap("c.go", "six", "6")}, want: map[string]string{"sub/b.go": "five 6"}},
		"the file of the hint is gone": {edits: []edit{swap("gone.go", "six", "6")}, want: map[string]string{"sub/b.go": "five 6"}},
		"in what an edit before made":  {edits: []edit{swap("", "one", "1"), swap("", "1 two", "12")}, want: map[string]string{"sub/a.go": "12 two three"}},
		"in two files": {
			edits: []edit{swap("sub/b.go", "five", "5"), swap("", "seven", "7")},
			want:  map[string]string{"sub/b.go": "5 six", "c.go": "five 7"},
		},
		"of the world":               {edits: []edit{swap("", "one", "1")}, world: true, want: map[string]string{"faultinject/sim/server.go": "1 nine"}},
		"gone":                       {edits: []edit{swap("c.go", "four", "4")}, fails: "edit 1: the source does not have this any more:\nfour"},
		"only in the tests":          {edits: []edit{swap("", "nine", "9")}, fails: "edit 1: the source does not have this any more"},
		"twice in one file":          {edits: []edit{swap("", "one", "1"), swap("", "two", "2")}, fails: "edit 2: the source has this 2 times instead of once, in sub/a.go:\ntwo"},
		"in two files, no hint":      {edits: []edit{swap("", "five", "5")}, fails: "2 times instead of once, in c.go, sub/b.go:"},
		"in two files, a wrong hint": {edits: []edit{swap("sub/a.go", "five", "5")}, fails: "2 times instead of once, in c.go, sub/b.go:"},
		"nothing":                    {edits: []edit{swap("c.go", "", "5")}, fails: "edit 1: it replaces nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			overlay, err := mutant{Name: "some", World: test.world, Edits: test.edits}.apply(source, t.TempDir())
			if test.fails != "" {
				require.ErrorContains(t, err, "faultinject: mutant some: ")
				require.ErrorContains(t, err, test.fails)
				return
			}
			require.NoError(t, err)
			changed := make(map[string]string)
			for file, to := range replaced(t, overlay) {
				text, err := os.ReadFile(to)
				require.NoError(t, err)
				file, err := filepath.Rel(source, file)
				require.NoError(t, err)
				changed[filepath.ToSlash(file)] = string(text)
			}
			assert.Equal(t, test.want, changed)
		})
	}
}

func replaced(t *testing.T, overlay string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(overlay)
	require.NoError(t, err)
	var read struct{ Replace map[string]string }
	require.NoError(t, json.Unmarshal(text, &read))
	require.NotEmpty(t, read.Replace)
	return read.Replace
}

func TestMutantsAreRead(t *testing.T) {
	all, err := parse("# A comment.\n\nmutant: some\nrule: A rule.\nthen: It: breaks.\nkind: latches\nworld\nreal\nnightly\n" +
		"edit\n-old\n+new\nedit: a/b.go\n \tkept\n-removed\n \n+added\n")
	require.NoError(t, err)
	require.Equal(t, []mutant{{
		Name: "some", Rule: "A rule.", Then: "It: breaks.", Kind: "latches", World: true, Real: true, Nightly: true,
		Edits: []edit{{Old: "old", New: "new"}, {File: "a/b.go", Old: "\tkept\nremoved\n", New: "\tkept\n\nadded"}},
	}}, all)
	for _, text := range []string{"rule: Of none.", "mutant: some\nwhy: It has no such attribute.", "mutant: some\n-edited", "mutant: some\nedit\n*odd"} {
		_, err := parse(text)
		require.ErrorContains(t, err, "line ", text)
	}
}
