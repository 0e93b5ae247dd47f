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

// The packages whose errors and log lines users see, and how the handbook names their errors.
var packages = map[string]string{".": "", "node": "node.", "admin": "admin.", "fence": "fence.", "election": "election.", "quorum": ""}

// finding is something that the handbook has to explain.
type finding struct {
	where string
	what  string
}

// TestHandbook walks the sources for errors, by name or by what they say, and for log lines: the handbook
// has to have each.
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

// squeezed has single spaces only, so that a line may be broken anywhere.
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

// said is what a piece of source adds to what users can see.
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

// called is the name of the function or method, with its package for those of errors and fmt.
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

// literal is the first argument, if it is written out, whole or in parts.
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

// separator is where the text of an error is not constant, or goes on about something else.
var separator = regexp.MustCompile(`%[-+#.0-9]*[a-z]|: |; |, |\(`)

// essence is the first part of the text of an error that is long enough to be found; nothing if all are
// short.
func essence(text string) []string {
	for _, part := range separator.Split(text, -1) {
		if part = strings.TrimSpace(part); len(part) > 8 && part != "quorumlock" {
			return []string{part}
		}
	}
	return nil
}

// TestSaid keeps the walk honest: what it must find, it finds.
func TestSaid(t *testing.T) {
	source := `package p
var ErrGone = errors.New("p: it is gone for good")
type OddError struct{}
type odd struct{}
func f() {
	l.client.warn("p: "+"look out", "node", 1)
	_ = fmt.Errorf("p: node %s has moved away: %w", x, err)
	_ = h.lost("nobody was there")
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
	require.Equal(t, []string{"`p.ErrGone`", "it is gone for good", "`p.OddError`", "p: look out", "has moved away", "nobody was there"}, all)
}
