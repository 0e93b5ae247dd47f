package quorumlock_test

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
)

// snippetScope declares the identifiers that the snippets of docs/coming-from.md use.
const snippetScope = `package doc

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/quorumlock"
	. "github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/fence"
	"github.com/quorumlock/quorumlock/node"
)

func _(ctx context.Context, err error, client *Client, lock *Lock, lease *Lease, rw *RWLock, semaphore *Semaphore,
	latch *Latch, e *election.Election, lead election.Lead, locks []Joinable, name, key, value, prefix, id string, names, keys []string, n, k int, token uint64, t, ttl, d time.Duration) {
}

var (
	_ = errors.Is
	_ = quorumlock.New
	_ = node.New
	_ = fence.Check
	_ = election.New
)
`

// Every call of this library in the guide for users of other libraries compiles.
func TestComingFromOtherLibraries(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "doc.go", snippetScope, parser.SkipObjectResolution)
	require.NoError(t, err)
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", exportData(t))}
	pkg, err := conf.Check("doc", fset, []*ast.File{file}, nil)
	require.NoError(t, err)
	inside := file.Decls[1].(*ast.FuncDecl).Body.Lbrace + 1 //nolint:forcetypeassert // the source is above

	text, err := os.ReadFile("docs/coming-from.md")
	require.NoError(t, err)
	checked := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.HasPrefix(line, "|") {
			continue
		}
		for _, span := range regexp.MustCompile("`[^`]+`").FindAllString(cells[2], -1) {
			snippet := strings.Trim(span, "`")
			if regexp.MustCompile(`^(quorumlock [a-z]|false$|cancel\(\)$|fence$)`).MatchString(snippet) {
				continue // This is a command, a package, or a plain value.
			}
			checked++
			require.NoError(t, compiles(fset, pkg, inside, snippet), "%s\nin %s", snippet, line)
		}
	}
	require.Contains(t, string(text), fmt.Sprintf("up to %d printable bytes", quorumlock.MaxPurposeLength))
	t.Log(checked, "snippets")
	require.Greater(t, checked, 80)
	require.Error(t, compiles(fset, pkg, inside, "lock.Obtain(ctx)"))
	require.Error(t, compiles(fset, pkg, inside, "Config.Suffix"))
}

// compiles checks a snippet: an expression, or a field of a type.
func compiles(fset *token.FileSet, pkg *types.Package, at token.Pos, snippet string) error {
	snippet = strings.NewReplacer("{ ... }", "{ return nil }", ": ...}", ": nil}").Replace(snippet)
	_, err := types.Eval(fset, pkg, at, snippet)
	dot := strings.LastIndex(snippet, ".")
	if err == nil || dot < 0 {
		return err
	}
	field := snippet[dot+1:]
	named, evalErr := types.Eval(fset, pkg, at, snippet[:dot])
	if evalErr != nil || !named.IsType() {
		return err
	}
	if found, _, _ := types.LookupFieldOrMethod(named.Type, true, pkg, field); found == nil {
		return err
	}
	return nil
}

// exportData finds the export data of packages, as the compiler wrote it.
func exportData(t *testing.T) importer.Lookup {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".", "./election", "./fence", "./node"}
	if built, _ := debug.ReadBuildInfo(); built != nil && slices.Contains(built.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = slices.Insert(args, 1, "-race") // most has been compiled so for this test, and need not be again
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	require.NoError(t, err)
	files := make(map[string]string)
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		path, file, _ := strings.Cut(lines.Text(), " ")
		files[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// Every test that a document names exists.
func TestNamedTestsExist(t *testing.T) {
	var text []byte
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, path := range paths {
			page, err := os.ReadFile(path)
			require.NoError(t, err)
			text = append(text, page...)
		}
	}
	there := make(map[string]bool)
	require.NoError(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
			there[string(found[1])] = true
		}
		return err
	}))
	named := regexp.MustCompile("`(Test[A-Z]\\w+)`").FindAllSubmatch(text, -1)
	require.Greater(t, len(named), 80)
	for _, name := range named {
		assert.True(t, there[string(name[1])], "%s", name[1])
	}
}
