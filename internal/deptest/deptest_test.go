// Package deptest checks which packages import which. The rules keep test tools out of programs that use the library,
// and keep the pure packages pure.
package deptest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/quorumlock/quorumlock"

// A build tag may hide an import on one system, so each rule is checked for all of these systems.
var systems = []string{"linux", "darwin", "windows"}

// rule restricts the imports of a package and of all packages below it in its import graph. A path names a package
// and all packages under it.
type rule struct {
	name  string
	docs  string   // why; part of the failure message
	pkg   string   // the package that is restricted, or several
	deps  bool     // all dependencies, not only the package's own imports
	allow []string // if not nil, only these and the standard library
	deny  []string // never
}

var rules = []rule{
	{
		name: "test tools stay out of the library",
		docs: "A program that imports the root package must not get test frameworks, containers, fake servers, telemetry or " +
			"command-line libraries with it. Put such code into tests, cmd/, bench/ or a package that the root does not import.",
		pkg:  module,
		deps: true,
		deny: []string{
			"github.com/ory/dockertest", "github.com/stretchr/testify", "github.com/alicebob/miniredis", "go.opentelemetry.io",
			"github.com/spf13/cobra", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/prometheus", "github.com/go-co-op",
			"k8s.io", "sigs.k8s.io", "github.com/yuin/gopher-lua", "github.com/redis/rueidis/mock",
		},
	},
	{
		name: "measure knows no monitoring system",
		docs: "measure/ turns events into measurements. The modules otel and prometheus record them, and a program gets only " +
			"the dependencies of the module that it uses.",
		pkg:   module + "/measure",
		allow: []string{module + "$", module + "/node"},
	},
	{
		name: "adapters use only the public API",
		docs: "A program may update the root without an adapter. Internal packages of the root may change in any version, so an " +
			"adapter that imports one may not compile then.",
		pkg:  module + "/otel " + module + "/prometheus " + module + "/goredis",
		deny: []string{module + "/internal"},
	},
	{
		name: "what starts servers and runs suites stays out of the library",
		docs: "node/memory, internal/nodetest, internal/fleet, internal/redisproc and internal/testkit are for " +
			"tests: only _test.go files, and packages that the root does not import, may use them.",
		pkg:  module,
		deps: true,
		deny: []string{
			module + "/node/memory", module + "/internal/nodetest", module + "/internal/fleet", module + "/internal/redisproc", module + "/internal/testkit",
			"testing",
		},
	},
	{
		name: "reports ask no node",
		docs: "cmd/internal/watch and cmd/internal/doctor ask nodes. What is said of their facts, and how, is tested without a server.",
		pkg:  module + "/cmd/internal/report " + module + "/cmd/internal/text " + module + "/cmd/internal/exit",
		deny: []string{"github.com/redis/rueidis", module + "/admin", module + "/cmd/internal/doctor"},
	},
	{
		name:  "fence stands on its own",
		docs:  "fence/ is for resources, which do not take locks: they must not get the library, or a client for Redis, with it.",
		pkg:   module + "/fence",
		deps:  true,
		allow: []string{module + "/fence"},
	},
	{
		name: "election uses only the public API",
		docs: "election/ shows that the public face suffices: it imports that, and nothing else of this module.",
		pkg:  module + "/election",
		allow: []string{
			module + "$", module + "/clock", module + "/quorum",
		},
	},
	{
		name: "dispatch carries operations and knows no leases",
		docs: "internal/dispatch sends operations to nodes. It reports answers through its interfaces, so that it can be read and " +
			"tested without the rest of the client.",
		pkg: module + "/internal/dispatch",
		allow: []string{
			"golang.org/x/sync/errgroup", module + "/clock", module + "/node", module + "/quorum", module + "/internal/decision", module + "/internal/wire",
		},
	},
	{
		name:  "slots are arithmetic",
		docs:  "internal/slots chooses slots of semaphores. It does no I/O and knows no leases.",
		pkg:   module + "/internal/slots",
		allow: []string{module + "/internal/decision", module + "/internal/wire"},
	},
	{
		name:  "inbox subscribes and knows no waiters",
		docs:  "internal/inbox keeps subscriptions open. It passes messages to a Handler, and knows neither queues nor leases.",
		pkg:   module + "/internal/inbox",
		allow: []string{module + "/clock", module + "/node", module + "/internal/wire"},
	},
	{
		name: "lease knows no waiters and no public type",
		docs: "internal/lease makes attempts and keeps leases. It gets tickets, local queues, errors and events through interfaces, " +
			"so that nothing in it depends on who waits, or on the public face.",
		pkg: module + "/internal/lease",
		allow: []string{
			module + "/clock", module + "/node", module + "/internal/decision", module + "/internal/wire",
			module + "/internal/dispatch", module + "/internal/slots",
		},
	},
	{
		name: "wait knows no public type",
		docs: "internal/wait queues callers, and lets package lease make their attempts. It leaves errors and hooks to the public face, " +
			"and never talks to a node by itself, except to keep its places in the queues and to leave them.",
		pkg: module + "/internal/wait",
		allow: []string{
			module + "/clock", module + "/node", module + "/quorum", module + "/internal/decision", module + "/internal/wire",
			module + "/internal/inbox", module + "/internal/lease", module + "/internal/slots",
		},
	},
	{
		name: "latch returns facts and knows no leases",
		docs: "internal/latch makes the calls of latches. It takes its token clock and its subscriptions as interfaces, and leaves errors " +
			"and hooks to the public face.",
		pkg:   module + "/internal/latch",
		allow: []string{module + "/clock", module + "/node", module + "/quorum", module + "/internal/decision", module + "/internal/wire", module + "/internal/dispatch"},
	},
	{
		name:  "decisions are pure",
		docs:  "internal/decision decides and does nothing else: it imports the rule and the standard library only, and has no I/O, goroutine or clock in it.",
		pkg:   module + "/internal/decision " + module + "/quorum",
		deps:  true,
		allow: []string{module + "/internal/decision", module + "/quorum"},
	},
	{
		name: "wire is a leaf",
		docs: "internal/wire has what the engine and a node say to each other: it imports the standard library only, so that package " +
			"node can name it.",
		pkg:   module + "/internal/wire",
		deps:  true,
		allow: []string{module + "/internal/wire"},
	},
	{
		name:  "clock is a leaf",
		docs:  "clock/ imports the standard library, the timer of internal/deadline, and golang.org/x/sys for the clocks of the systems.",
		pkg:   module + "/clock",
		deps:  true,
		allow: []string{module + "/clock", module + "/internal/deadline", "golang.org/x/sys"},
	},
	{
		name:  "respguard is a leaf",
		docs:  "internal/respguard stands between a connection and any client library: it imports the standard library only.",
		pkg:   module + "/internal/respguard",
		deps:  true,
		allow: []string{module + "/internal/respguard"},
	},
	{
		name: "decisions do no I/O",
		docs: "internal/decision takes votes and times as values: what talks, waits or runs in parallel belongs to the coordinator.",
		pkg:  module + "/internal/decision " + module + "/quorum",
		deny: []string{"net", "os", "context", "sync", "log", "math/rand"},
	},
	{
		name: "node does not know the coordinator",
		docs: "The root package drives nodes through node.Node; an import back would make a cycle of meaning even where it makes none of code.",
		pkg:  module + "/node",
		deps: true,
		deny: []string{module + "$"},
	},
	{
		name: "node imports little",
		docs: "node/ is one node: it may import clock, internal/wire, internal/respguard, its own subpackages, rueidis and golang.org/x/sync.",
		pkg:  module + "/node",
		allow: []string{
			module + "/node", module + "/clock", module + "/internal/wire", module + "/internal/respguard", "github.com/redis/rueidis",
			"golang.org/x/sync",
		},
	},
}

func TestImports(t *testing.T) {
	readSources(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, system := range systems {
				imports := list(t, r.pkg, r.deps, system)
				assert.Empty(t, r.violations(imports), "%s on %s breaks a rule:\n%s", r.pkg, system, r.docs)
			}
		})
	}
}

// readSources reads all directories of the module. The go command caches the result of a test by the files that the
// test itself opens. It does not see the files that a child process opens.
func readSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join("..", ".."), func(_ string, entry fs.DirEntry, err error) error {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
			return filepath.SkipDir
		}
		return err
	})
	require.NoError(t, err)
}

func (r rule) violations(imports []string) []string {
	return slices.DeleteFunc(slices.Clone(imports), func(path string) bool {
		return !matches(r.deny, path) && (r.allow == nil || standard(path) || matches(r.allow, path))
	})
}

// matches reports whether a pattern names the package or a package above it. A pattern that ends in $ names one
// package only.
func matches(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		exact, only := strings.CutSuffix(p, "$")
		return path == exact || !only && strings.HasPrefix(path, p+"/")
	})
}

// standard reports whether a package belongs to the standard library. The go command's rule: its first path element
// has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// list returns the imports, or all dependencies, of a package without its tests.
func list(t *testing.T, pkg string, deps bool, system string) []string {
	t.Helper()
	pkgs := strings.Fields(pkg)
	args := []string{"list", "-f", `{{join .Imports "\n"}}`}
	if deps {
		args = []string{"list", "-deps"}
	}
	args = append(args, pkgs...)
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go %s:\n%s", strings.Join(args, " "), stderr.String())
	imports := strings.Fields(string(out))
	// A package may import its own subpackages.
	return slices.DeleteFunc(imports, func(path string) bool { return slices.Contains(pkgs, path) })
}

func TestViolations(t *testing.T) {
	imports := []string{"fmt", "net/http", module, module + "/clock", "github.com/stretchr/testify/require", "golang.org/x/sys/unix"}
	for _, c := range []struct {
		r    rule
		want []string
	}{
		{rule{}, nil},
		{rule{allow: []string{}}, []string{module, module + "/clock", "github.com/stretchr/testify/require", "golang.org/x/sys/unix"}},
		{rule{allow: []string{module, "github.com/stretchr", "golang.org/x/sys"}}, nil},
		{rule{allow: []string{module, "golang.org/x/sys/uni"}}, []string{"github.com/stretchr/testify/require", "golang.org/x/sys/unix"}},
		{rule{deny: []string{"net"}}, []string{"net/http"}},
		{rule{deny: []string{"github.com/stretchr/testify"}}, []string{"github.com/stretchr/testify/require"}},
		{rule{deny: []string{"github.com/stretchr/test"}}, nil},
		{rule{deny: []string{module + "$"}}, []string{module}},
		{rule{deny: []string{"fmt"}, allow: []string{module, "github.com"}}, []string{"fmt", "golang.org/x/sys/unix"}},
	} {
		assert.ElementsMatch(t, c.want, c.r.violations(imports), fmt.Sprint(c.r))
	}
}
