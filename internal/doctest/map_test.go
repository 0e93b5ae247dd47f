package doctest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page that leads maintainers through the code names functions, types and mutexes. These tests fail when code
// moves or is renamed, and the page does not follow.
const architecture = "docs/architecture.md"

// named is a link from a name in backticks to a Go file: [`Tally.Result`](../internal/decision/tally.go).
var named = regexp.MustCompile("\\[`([^`\\]]+)`\\]\\(([^)\\s#]+\\.go)\\)")

// TestLinkedNamesAreDeclared checks every such link of every document.
func TestLinkedNamesAreDeclared(t *testing.T) {
	found := 0
	for _, d := range documents(t) {
		_, prose := d.blocks()
		for i, line := range prose {
			for _, m := range named.FindAllStringSubmatch(line, -1) {
				found++
				path := filepath.Join(filepath.Dir(d.path), m[2])
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					continue // TestLinks reports that the file does not exist
				}
				if names := declared(t, path); !slices.Contains(names, m[1]) {
					t.Errorf("%s:%d: %s does not declare %s", d.path, i+1, path, m[1])
				}
			}
		}
	}
	require.Greater(t, found, 100, "the pattern must find the links of %s", architecture)
}

// TestStepsHaveOneLink keeps the traces readable in an editor: each step is one place.
func TestStepsHaveOneLink(t *testing.T) {
	steps := stepsOf(t, "## Four operations, step by step")
	require.Greater(t, len(steps), 50)
	for _, step := range steps {
		if links := link.FindAllString(step, -1); len(links) != 1 {
			t.Errorf("a step must link to one place, and not to %d: %s", len(links), strings.TrimSpace(step))
		}
	}
}

// TestEveryMutexHasItsPlace compares the mutexes of the library with the table of the lock order.
func TestEveryMutexHasItsPlace(t *testing.T) {
	text := strings.Join(read(t, architecture).lines, "\n")
	mutexes := 0
	for _, path := range libraryFiles(t) {
		for _, name := range mutexesOf(parse(t, path)) {
			mutexes++
			if !strings.Contains(text, "| [`"+name+"`](../"+path+") |") {
				t.Errorf("the table of %s must say when %s of %s may be locked", architecture, name, path)
			}
		}
	}
	require.Positive(t, mutexes)
	if listed := strings.Count(text, ".mu`]("); listed > mutexes {
		t.Errorf("%s lists %d mutexes, and the code has %d", architecture, listed, mutexes)
	}
}

// TestEveryGoroutineHasItsOwner compares the places that start goroutines with the tables of goroutines.
func TestEveryGoroutineHasItsOwner(t *testing.T) {
	section := sectionOf(t, "## Goroutines")
	starts := 0
	for _, path := range libraryFiles(t) {
		if strings.HasPrefix(path, "clock/") {
			continue // clock implements the timers
		}
		if startsGoroutine(parse(t, path)) {
			starts++
			if !strings.Contains(section, "](../"+path+")") {
				t.Errorf("%s must name the goroutine or timer that %s starts, and its owner", architecture, path)
			}
		}
	}
	require.Positive(t, starts)
}

// libraryFiles lists the Go files that a program gets with the root package.
func libraryFiles(t *testing.T) (paths []string) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", `{{$dir := .Dir}}{{if and .Module .Module.Main}}{{range .GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{end}}`, ".")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	top, err := filepath.Abs(root)
	require.NoError(t, err)
	for path := range strings.FieldsSeq(string(out)) {
		path, err := filepath.Rel(top, path)
		require.NoError(t, err)
		paths = append(paths, filepath.ToSlash(path))
	}
	require.NotEmpty(t, paths)
	return paths
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	return file
}

// declared lists the names that a file declares: functions and values as f, methods, fields and methods of interfaces
// as T.f.
func declared(t *testing.T, path string) (names []string) {
	t.Helper()
	for _, d := range parse(t, path).Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, receiver(d)+d.Name.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				names = append(names, namesOf(s)...)
			}
		}
	}
	return names
}

// receiver returns the type of a method and a dot, or nothing for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if index, ok := of.(*ast.IndexExpr); ok {
		of = index.X
	}
	return of.(*ast.Ident).Name + "."
}

func namesOf(s ast.Spec) (names []string) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			names = append(names, name.Name)
		}
	case *ast.TypeSpec:
		names = append(names, s.Name.Name)
		for _, f := range fieldsOf(s) {
			for _, name := range f.Names {
				names = append(names, s.Name.Name+"."+name.Name)
			}
		}
	}
	return names
}

func fieldsOf(s *ast.TypeSpec) []*ast.Field {
	switch of := s.Type.(type) {
	case *ast.StructType:
		return of.Fields.List
	case *ast.InterfaceType:
		return of.Methods.List
	default:
		return nil
	}
}

// mutexesOf lists the fields of a file's types that are mutexes.
func mutexesOf(file *ast.File) (names []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		for _, f := range fieldsOf(s) {
			of, ok := f.Type.(*ast.SelectorExpr)
			if ok && (of.Sel.Name == "Mutex" || of.Sel.Name == "RWMutex") {
				for _, name := range f.Names {
					names = append(names, s.Name.Name+"."+name.Name)
				}
			}
		}
		return true
	})
	// The mutexes of clocks are leaves, and are described together.
	if file.Name.Name == "clock" || file.Name.Name == "deadline" {
		return nil
	}
	return names
}

// startsGoroutine reports whether a file has a go statement, or a call of Go or AfterFunc.
func startsGoroutine(file *ast.File) (starts bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			if of, ok := n.Fun.(*ast.SelectorExpr); ok && (of.Sel.Name == "Go" || of.Sel.Name == "AfterFunc") {
				starts = true
			}
		}
		return !starts
	})
	return starts
}

// sectionOf returns the text of the architecture under a heading, up to the next heading of its level.
func sectionOf(t *testing.T, title string) string {
	t.Helper()
	text := "\n" + strings.Join(read(t, architecture).lines, "\n")
	_, section, ok := strings.Cut(text, "\n"+title+"\n")
	require.True(t, ok, "%s has no section %q", architecture, title)
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

var numbered = regexp.MustCompile(`^\d+\. `)

// stepsOf returns the numbered items of a section, each joined to one line.
func stepsOf(t *testing.T, title string) (steps []string) {
	t.Helper()
	for line := range strings.Lines(sectionOf(t, title)) {
		switch {
		case numbered.MatchString(line):
			steps = append(steps, line)
		case len(steps) > 0 && strings.HasPrefix(line, "   "):
			steps[len(steps)-1] += line
		}
	}
	return steps
}
