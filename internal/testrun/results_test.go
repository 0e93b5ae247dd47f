package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// module writes a module with tests of every outcome, and has go test run there.
func module(t *testing.T, tests string) {
	t.Helper()
	testkit, err := os.ReadFile("../testkit/testkit.go")
	require.NoError(t, err)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module example.com/m\n\ngo 1.26.0\n",
		"kit/testkit.go": string(testkit),
		"a/a_test.go":    "package a\n\nimport (\n\t\"os\"\n\t\"testing\"\n\n\ttestkit \"example.com/m/kit\"\n)\n\nvar _ = os.Exit\nvar _ = testkit.Prefix\n\n" + tests,
		"b/b_test.go":    "package b\n\nimport \"testing\"\n\nfunc TestOther(*testing.T) {}\n",
		"c/c.go":         "package c\n",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
}

// runTests runs the tests of the module as main does, and returns the output and the summary.
func runTests(t *testing.T) (status int, shown, summary string) {
	t.Helper()
	var out strings.Builder
	r := newResults(&out)
	status, err := goTest([]string{"-count=1", "./..."}, r)
	require.NoError(t, err)
	r.finish()
	return status, out.String(), r.summary(90*time.Second, []string{"the moon: make moon"})
}

func TestSummary(t *testing.T) {
	module(t, `
func TestGood(t *testing.T) { t.Run("part", func(*testing.T) {}) }
func TestBad(t *testing.T) {
	t.Run("fine", func(*testing.T) {})
	t.Run("wrong", func(t *testing.T) { t.Error("two and two is five") })
}
func TestMissing(t *testing.T) {
	t.Skip("there is no engine")
}
func TestSlow1(t *testing.T) { t.Skip("slow: make check") }
func TestSlow2(t *testing.T) { t.Skip("slow: make check") }
func TestSlow3(t *testing.T) { t.Skip("slow: make check") }
func TestSlow4(t *testing.T) { t.Skip("slow: make check") }
func TestBusy(t *testing.T) { testkit.Inconclusive(t, "late by %d s", 3) }
func TestUnsafe(t *testing.T) { t.Error("two holders"); testkit.Inconclusive(t, "busy") }
`)
	status, shown, summary := runTests(t)
	require.Equal(t, 1, status)
	require.Equal(t, `3 passed, 2 failed, 1 inconclusive, 5 not run, in 90 s

Not run:
  the moon: make moon
  slow: make check: example.com/m/a TestSlow1, example.com/m/a TestSlow2, example.com/m/a TestSlow3, and 1 more
  there is no engine: example.com/m/a TestMissing

Inconclusive, as the machine was too busy to see what they look for:
  example.com/m/a TestBusy: late by 3 s

Failed:
  example.com/m/a TestBad/wrong
  example.com/m/a TestUnsafe
`, summary)
	require.Contains(t, shown, "two and two is five")
	require.Regexp(t, `(?m)^FAIL .* s  example.com/m/a$`, shown)
	require.Regexp(t, `(?m)^ok .* s  example.com/m/b$`, shown)
	require.NotContains(t, shown, "TestGood", "what passes is not shown")
}

func TestSummaryOfSuccess(t *testing.T) {
	module(t, "func TestGood(*testing.T) {}\n")
	status, _, summary := runTests(t)
	require.Zero(t, status)
	require.Equal(t, "2 passed, 0 failed, 0 inconclusive, 0 not run, in 90 s\n\nNot run:\n  the moon: make moon\n", summary)
}

// A test that ends the process has no end of its own, and failed all the same.
func TestSummaryOfAnEndInTheMiddle(t *testing.T) {
	module(t, "func TestGood(*testing.T) {}\nfunc TestLast(*testing.T) { os.Exit(2) }\n")
	status, _, summary := runTests(t)
	require.Equal(t, 1, status)
	require.Contains(t, summary, "2 passed, 1 failed")
	require.Contains(t, summary, "Failed:\n  example.com/m/a TestLast\n")
}

// What does not compile has no tests, and is a failure.
func TestSummaryOfPackageThatDoesNotCompile(t *testing.T) {
	module(t, "func TestGood(*testing.T) { nonsense() }\n")
	status, shown, summary := runTests(t)
	require.Equal(t, 1, status)
	require.Contains(t, shown, "undefined: nonsense")
	require.Contains(t, summary, "1 passed, 1 failed")
	require.Contains(t, summary, "Failed:\n  package example.com/m/a\n")
}

func TestFileOfSummaries(t *testing.T) {
	module(t, "func TestGood(*testing.T) {}\n")
	file := filepath.Join(t.TempDir(), "summary")
	for range 2 {
		status, err := run([]string{"-summary", file, "--", "-count=1", "./..."})
		require.NoError(t, err)
		require.Zero(t, status)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(text), "2 passed, 0 failed, 0 inconclusive, 0 not run"))
}
