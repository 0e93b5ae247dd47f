package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/testkit"
)

// event is a line of the output of go test -json; see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // seconds
}

// results collects the events of all tests.
type results struct {
	out io.Writer
	// running has the output of each test, and of each package under the empty name, until it ends.
	running map[test]*strings.Builder
	// parents are the tests that have subtests: only the latter are counted.
	parents map[test]bool
	passed  map[test]bool
	// failed are in the order in which they ended.
	failed []test
	// packages are the packages that failed outside of any test: they did not compile, say.
	packages []string
	// inconclusive and skipped have the reason of each test.
	inconclusive, skipped map[test]string
	// blamed are the packages of failed tests.
	blamed map[string]bool
}

// test is a test of a package.
type test struct{ pkg, name string }

func (t test) String() string { return short(t.pkg) + " " + t.name }

// contains reports whether another test is a part of this one.
func (t test) contains(other test) bool {
	return t.pkg == other.pkg && strings.HasPrefix(other.name, t.name+"/")
}

// short leaves the module out of an import path.
func short(pkg string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(pkg, "github.com/quorumlock/quorumlock"), "/"), "quorumlock")
}

func newResults(out io.Writer) *results {
	return &results{
		out: out, running: make(map[test]*strings.Builder), parents: make(map[test]bool), passed: make(map[test]bool),
		inconclusive: make(map[test]string), skipped: make(map[test]string), blamed: make(map[string]bool),
	}
}

// take takes an event in.
func (r *results) take(e event) {
	it := test{e.Package, e.Test}
	switch e.Action {
	case "start", "run":
		r.running[it] = &strings.Builder{}
		for i, c := range e.Test {
			if c == '/' {
				r.parents[test{e.Package, e.Test[:i]}] = true
			}
		}
	case "output":
		if output := r.running[it]; output != nil {
			output.WriteString(e.Output)
		}
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(it, e.Action)
		}
	}
}

// endTest notes how a test ended, and shows its output if it failed.
func (r *results) endTest(it test, how string) {
	said := ""
	if output := r.running[it]; output != nil {
		said = output.String()
	}
	delete(r.running, it)
	switch how {
	case "pass":
		r.passed[it] = true
	case "skip":
		reason, inconclusive := reasonOf(said)
		if inconclusive {
			r.inconclusive[it] = reason
		} else {
			r.skipped[it] = reason
		}
	default:
		r.blamed[it.pkg] = true
		if !slices.ContainsFunc(r.failed, it.contains) { // or a part of it failed, which is named
			r.failed = append(r.failed, it)
		}
		fmt.Fprintf(r.out, "\n=== FAILED: %v\n%s\n", it, said)
	}
}

// endPackage shows how a package ended. Tests that have not ended failed: they ended the process, or
// were ended with it.
func (r *results) endPackage(e event) {
	said := ""
	if output := r.running[test{pkg: e.Package}]; output != nil {
		said = output.String()
	}
	delete(r.running, test{pkg: e.Package})
	for _, it := range r.unfinished(e.Package) {
		r.endTest(it, "fail")
	}
	verdict := map[string]string{"pass": "ok", "skip": "-", "fail": "FAIL"}[e.Action]
	if e.Action == "fail" && !r.blamed[e.Package] {
		r.packages = append(r.packages, short(e.Package))
		fmt.Fprintf(r.out, "\n=== FAILED: package %s\n%s\n", short(e.Package), said)
	}
	fmt.Fprintf(r.out, "%-4s  %7.1f s  %s\n", verdict, e.Elapsed, short(e.Package))
}

// unfinished are the tests of a package that have not ended, parents last.
func (r *results) unfinished(pkg string) (all []test) {
	for it := range r.running {
		if it.pkg == pkg {
			all = append(all, it)
		}
	}
	slices.SortFunc(all, func(a, b test) int { return cmp.Compare(b.name, a.name) })
	return all
}

// finish ends the packages whose end was not told, as go test was ended itself.
func (r *results) finish() {
	for it := range maps.Clone(r.running) {
		if it.name == "" {
			r.endPackage(event{Action: "fail", Package: it.pkg})
		}
	}
}

// reasonOf finds in the output of a test why it was skipped. Go ends the output with the line
// "--- SKIP", and has the place of the call before the reason.
func reasonOf(said string) (reason string, inconclusive bool) {
	if _, text, ok := strings.Cut(said, testkit.Prefix); ok {
		text, _, _ = strings.Cut(text, "\n")
		return strings.TrimSpace(text), true
	}
	lines := slices.Collect(strings.Lines(said))
	for _, line := range slices.Backward(lines) {
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			_, text, _ = strings.Cut(text, ": ")
			return strings.TrimSpace(text), false
		}
	}
	return "no reason given", false
}

// listed names the first tests, and says how many more there are.
func listed(names []string) string {
	const most = 3
	slices.Sort(names)
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// summary tells it all; its first line is for programs, too.
func (r *results) summary(took time.Duration, without []string) string {
	var b strings.Builder
	passed := 0
	for it := range r.passed {
		if !r.parents[it] {
			passed++
		}
	}
	fmt.Fprintf(&b, "%d passed, %d failed, %d inconclusive, %d not run, in %.0f s\n", passed,
		len(r.failed)+len(r.packages), len(r.inconclusive), len(r.skipped), took.Seconds())
	if len(without)+len(r.skipped) > 0 {
		b.WriteString("\nNot run:\n")
		for _, what := range without {
			fmt.Fprintf(&b, "  %s\n", what)
		}
	}
	byReason := make(map[string][]string)
	for it, reason := range r.skipped {
		byReason[reason] = append(byReason[reason], it.String())
	}
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(&b, "  %s: %s\n", reason, listed(byReason[reason]))
	}
	if len(r.inconclusive) > 0 {
		b.WriteString("\nInconclusive, as the machine was too busy to see what they look for:\n")
		for it, reason := range r.inconclusive {
			fmt.Fprintf(&b, "  %v: %s\n", it, reason)
		}
	}
	if len(r.failed)+len(r.packages) > 0 {
		b.WriteString("\nFailed:\n")
	}
	for _, it := range r.failed {
		fmt.Fprintf(&b, "  %v\n", it)
	}
	for _, pkg := range r.packages {
		fmt.Fprintf(&b, "  package %s\n", pkg)
	}
	return b.String()
}
