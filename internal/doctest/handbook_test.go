package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// packages are the packages whose errors and log lines users see, and the prefix of their errors in the handbook.
var packages = map[string]string{".": "", "node": "node.", "admin": "admin.", "fence": "fence.", "election": "election.", "quorum": "quorum.", "goredis": "goredis."}

// finding is an error or log line that the handbook must explain.
type finding struct {
	where string
	what  string
}

// TestHandbook collects error names, error texts and log lines from the sources. The handbook must have each of them.
func TestHandbook(t *testing.T) {
	handbook := squeezed(strings.Join(read(t, "docs/handbook.md").lines, "\n"))
	found := 0
	for dir, prefix := range packages {
		for _, f := range findings(t, dir, prefix) {
			found++
			if !strings.Contains(handbook, squeezed(f.what)) {
				t.Errorf("%s: docs/handbook.md must explain %s", f.where, f.what)
			}
		}
	}
	require.Greater(t, found, 80, "the walk has lost its way")
}

// squeezed replaces white space by single spaces, because a line may be broken anywhere.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

func findings(t *testing.T, dir, prefix string) (all []finding) {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseDir(files, filepath.Join(root, dir), func(info fs.FileInfo) bool { //nolint:staticcheck // no build tag matters here
		return !strings.HasSuffix(info.Name(), "_test.go")
	}, 0)
	require.NoError(t, err)
	for _, pkg := range parsed {
		ast.Inspect(pkg, func(n ast.Node) bool {
			if n != nil {
				for _, what := range said(n, prefix) {
					all = append(all, finding{files.Position(n.Pos()).String(), what})
				}
			}
			return true
		})
	}
	return all
}

// said returns the names and texts that a piece of source shows to users.
func said(n ast.Node, prefix string) (all []string) {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for _, name := range n.Names {
			if strings.HasPrefix(name.Name, "Err") {
				all = append(all, "`"+prefix+name.Name+"`")
			}
		}
	case *ast.TypeSpec:
		if n.Name.IsExported() && strings.HasSuffix(n.Name.Name, "Error") {
			all = append(all, "`"+prefix+n.Name.Name+"`")
		}
	case *ast.CallExpr:
		text, ok := literal(n)
		if !ok {
			return nil
		}
		switch function := called(n); function {
		case "warn", "info", "Warn", "Info":
			all = append(all, text) // the whole line
		case "errors.New", "fmt.Errorf", "lost":
			all = append(all, essence(text)...)
		}
	}
	return all
}

// called returns the name of the function or method. Functions of errors and fmt keep their package.
func called(call *ast.CallExpr) string {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := selector.X.(*ast.Ident); ok && (x.Name == "errors" || x.Name == "fmt") {
		return x.Name + "." + selector.Sel.Name
	}
	return selector.Sel.Name
}

// literal returns the first argument if it is a string literal, or joined from literals.
func literal(call *ast.CallExpr) (string, bool) {
	if len(call.Args) == 0 {
		return "", false
	}
	return written(call.Args[0])
}

func written(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok := written(e.X)
		if !ok {
			return "", false
		}
		right, _ := written(e.Y)
		return left + right, true
	default:
		return "", false
	}
}

// separator matches where an error text stops being constant, or begins another part.
var separator = regexp.MustCompile(`%[-+#.0-9]*[a-z]|: |; |, |\(`)

// essence returns the first part of an error text that is long enough to be found; nothing if all parts are short.
func essence(text string) []string {
	for _, part := range separator.Split(text, -1) {
		if part = strings.TrimSpace(part); len(part) > 8 && part != "quorumlock" {
			return []string{part}
		}
	}
	return nil
}

// TestSaid checks the collection itself: it finds each form.
func TestSaid(t *testing.T) {
	source := `package p
var ErrGone = errors.New("p: it is gone for good")
type OddError struct{}
type odd struct{}
func f() {
	l.client.warn("p: "+"look out", "node", 1)
	_ = fmt.Errorf("p: node %s has moved away: %w", x, err)
	_ = h.lost("no answer came")
	_ = strings.ToUpper("not a message")
}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	require.NoError(t, err)
	var all []string
	ast.Inspect(file, func(n ast.Node) bool {
		if n != nil {
			all = append(all, said(n, "p.")...)
		}
		return true
	})
	require.Equal(t, []string{"`p.ErrGone`", "it is gone for good", "`p.OddError`", "p: look out", "has moved away", "no answer came"}, all)
}
