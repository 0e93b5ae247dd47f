package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/cmd/internal/exit"
)

func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	r := call(t, "man", dir)
	require.Zero(t, r.code, r.stderr)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	pages := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		pages[filepath.Base(file)] = string(text)
	}
	for _, command := range []string{"init", "doctor", "run", "status", "top", "release", "demo", "version", "completion", "completion-bash"} {
		assert.Contains(t, pages, "quorumlock-"+command+".1")
		assert.Contains(t, pages["quorumlock.1"]+pages["quorumlock-completion.1"], strings.ReplaceAll("quorumlock-"+command+"(1)", "-", `\-`))
	}
	assert.NotContains(t, pages, "quorumlock-man.1", "the command man is only for packagers")
	for name, page := range pages {
		assert.Regexp(t, `^\.TH "QUORUMLOCK`, page, name)
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				assert.Regexp(t, `^\.(TH |SH [A-Z ]+$|nf$|fi$)`, strings.TrimSuffix(line, "\n"), name)
			}
		}
		for _, section := range []string{"NAME", "SYNOPSIS"} {
			assert.Contains(t, page, ".SH "+section+"\n", name)
		}
	}
	assert.Contains(t, pages["quorumlock-status.1"], roff(statusHelp))
	assert.Contains(t, pages["quorumlock-top.1"], `\-\-interval duration`)
	assert.Contains(t, pages["quorumlock-top.1"], `\-\-nodes nodes`)

	r = call(t, "man", filepath.Join(dir, "none"))
	assert.Equal(t, exit.Failure, r.code)
	assert.Contains(t, r.stderr, "no such file or directory")
}

func TestRoff(t *testing.T) {
	assert.Equal(t, "\\&.x\n\\&'y\n a\\-b \\e0 .z", roff(".x\n'y\n a-b \\0 .z"))
}

func TestCompletion(t *testing.T) {
	for shell, has := range map[string]string{"bash": "__start_quorumlock", "zsh": "#compdef quorumlock", "fish": "complete -c quorumlock", "powershell": "Register-ArgumentCompleter"} {
		r := call(t, "completion", shell)
		assert.Zero(t, r.code)
		assert.Contains(t, r.stdout, has)
		assert.Empty(t, r.stderr)
	}
	const noFiles, files = "\n:4\n", "\n:0\n"
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"st"}, []string{"status\tShow what has a name", noFiles}},
		{[]string{"top", "--int"}, []string{"--interval"}},
		{[]string{"status", ""}, []string{noFiles}},
		{[]string{"run", "--key", "k", "--", ""}, []string{files}},
	} {
		r := call(t, append([]string{"__complete"}, c.args...)...)
		for _, says := range c.says {
			assert.Contains(t, "\n"+r.stdout, says, c.args)
		}
	}
}
