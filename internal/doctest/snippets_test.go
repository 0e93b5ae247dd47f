package doctest

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// imports are the packages that snippets may use without importing them. A whole file must import what it uses.
var imports = []string{
	"context", "database/sql", "encoding/json", "errors", "fmt", "log", "log/slog", "net/http", "os", "os/signal", "testing", "time",
	"crypto/tls", "crypto/x509",
	"github.com/redis/rueidis",
	module, module + "/admin", module + "/clock", module + "/election", module + "/fence", module + "/node", module + "/quorum",
}

const module = "github.com/quorumlock/quorumlock"

// surroundings are the declarations that the text around a snippet implies. Statements and declarations may use all
// of them, and files the functions.
const (
	surroundings = `package snippet

var (
	ctx    context.Context
	db     *sql.DB
	client *quorumlock.Client
	lock   *quorumlock.Lock
	rw     *quorumlock.RWLock
	lease  *quorumlock.Lease
	nodes  []node.Node
	t      *testing.T

	tlsConfig *tls.Config

	balance int
)
`
	functions = `package snippet

func migrate(context.Context, *sql.DB, uint64) error { return nil }
func schedule(context.Context, uint64) error         { return nil }
func work(context.Context) error                     { return nil }
`
)

// others matches packages of other modules, which compile their examples themselves.
var others = regexp.MustCompile(`quorumlock/(faultinject|bench|goredis|otel|prometheus)|\b(redsync|gocron)\.`)

// TestSnippets type-checks all Go in all documents: in fenced blocks, as files, declarations or statements. It
// ignores only unused variables and imports.
func TestSnippets(t *testing.T) {
	library := newLibrary(t)
	service, err := os.ReadFile(filepath.Join(root, "examples/service/service.go")) // a part of a package, which compiles it
	require.NoError(t, err)
	checked := 0
	for _, d := range documents(t) {
		code, _ := d.blocks()
		for _, b := range code {
			switch {
			case b.language == "go" && !others.MatchString(b.text) && !strings.Contains(string(service), b.text):
				checked++
				if err := library.check(b.text); err != nil {
					t.Errorf("%s:%d: %v", d.path, b.line, err)
				}
			case b.indented && looksLikeGo(b.text):
				t.Errorf("%s:%d: Go belongs between ```go and ```, where it is compiled", d.path, b.line)
			}
		}
	}
	require.Greater(t, checked, 5, "the README alone has some")
}

// looksLikeGo finds Go code in a block without a language.
func looksLikeGo(text string) bool {
	for _, sign := range []string{":= ", "func(", "err != nil", "quorumlock.New", "node.New", "client."} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

func TestSnippetsCheck(t *testing.T) {
	library := newLibrary(t)
	for text, ok := range map[string]bool{
		"lease, err := client.RedLock(\"x\").Acquire(ctx)":                true,
		"if err := lease.Release(ctx); err != nil {\n\treturn err\n}":     true,
		"func f(l *quorumlock.Lock) error { return nil }":                 true,
		"package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }": true,
		"client.RedLok(\"x\")":                                                  false,
		"lease, err := client.RedLock(7).Acquire(ctx)":                          false,
		"package main\n\nfunc main() { fmt.Println() }":                         false,
		"quorumlock.New(quorumlock.Config{Adresses: nil})":                      false,
		"lease, err := client.RedLock(\"x\").Acquire(ctx":                       false,
		"election.Run(ctx, client, \"x\", func(ctx context.Context) error { })": false,
		"import \"nowhere.example/x\"\n\nfunc f() { x.F() }":                    false,
		"_ = quorumlock.LockOptions{TTL: \"10s\"}":                              false,
		"lock.Do(ctx, func(ctx context.Context) error { return ctx.Err() })":    true,
	} {
		err := library.check(text)
		require.Equal(t, ok, err == nil, "%s: %v", text, err)
	}
}

// library finds the compiled packages that snippets use.
type library struct {
	files    *token.FileSet
	importer types.Importer
}

// newLibrary compiles the packages with the go command.
func newLibrary(t *testing.T) *library {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, imports...)...)
	cmd.Dir = root
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	require.NoError(t, err, problems.String())
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	files := token.NewFileSet()
	return &library{files, importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("snippets cannot import %s: add it to the list in this test", path)
		}
		return os.Open(exports[path])
	})}
}

func (l *library) check(snippet string) error {
	file, whole, err := l.parse(snippet)
	if err != nil {
		return err
	}
	given := []string{functions}
	if !whole {
		given = append(given, surroundings)
	}
	sources := []*ast.File{file}
	for _, text := range given {
		around, err := l.importing(text)
		if err != nil {
			return err
		}
		around.Name = file.Name
		sources = append(sources, around)
	}
	var problems []error
	config := types.Config{Importer: l.importer, Error: func(err error) {
		var problem types.Error
		if !errors.As(err, &problem) || !problem.Soft {
			problems = append(problems, err)
		}
	}}
	_, _ = config.Check(file.Name.Name, l.files, sources, nil) // it has told what is wrong
	return errors.Join(problems...)
}

// parse parses a snippet as a file, as declarations, or as statements.
func (l *library) parse(snippet string) (file *ast.File, whole bool, err error) {
	if file, err := parser.ParseFile(l.files, "snippet.go", snippet, 0); err == nil {
		return file, true, nil
	}
	text := "package snippet\n" + snippet
	if _, err := parser.ParseFile(l.files, "snippet.go", text, 0); err != nil {
		text = "package snippet\nfunc _() error {\n{" + withoutGaps(snippet) + "\n}\nreturn nil\n}"
	}
	file, err = l.importing(text)
	return file, false, err
}

// withoutGaps removes lines that stand for omitted code.
func withoutGaps(snippet string) string {
	lines := strings.Split(snippet, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "..." }), "\n")
}

// importing returns a file of package snippet with the imports that it needs.
func (l *library) importing(text string) (*ast.File, error) {
	file, err := parser.ParseFile(l.files, "", text, 0)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, name := range file.Unresolved {
		wanted[name.Name] = true
	}
	for _, spec := range file.Imports {
		delete(wanted, base(strings.Trim(spec.Path.Value, `"`)))
	}
	var head strings.Builder
	head.WriteString("package snippet\n")
	for _, path := range imports {
		if wanted[base(path)] {
			fmt.Fprintf(&head, "import %q\n", path)
		}
	}
	_, body, _ := strings.Cut(text, "package snippet\n")
	return parser.ParseFile(l.files, "snippet.go", head.String()+body, 0)
}

func base(path string) string { return path[strings.LastIndex(path, "/")+1:] }
