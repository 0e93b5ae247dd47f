// Package render writes the report: results.md, with tables.
package render

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/runner"
)

// Report is the content of all report files.
type Report struct {
	Made    time.Time
	Results []cell.Result

	options runner.Options
	rows    []*Row
}

// New makes a report of the results, in the order of the plan.
func New(o runner.Options, plan []cell.Cell, results []cell.Result) *Report {
	return &Report{Made: time.Now().UTC(), Results: results, options: o, rows: rows(results, plan)}
}

// Write writes the report into a directory, which it creates if necessary.
func Write(dir string, r *Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "results.md"), []byte(r.markdown()), 0o644)
}

// markdown returns the conditions, the goals, and a table for each scenario.
func (r *Report) markdown() string {
	var b strings.Builder
	b.WriteString(r.conditions())
	if r.options.Quick {
		b.WriteString("\nThis was a quick run, which only shows that everything works. Its figures mean nothing.\n")
	} else {
		fmt.Fprintf(&b, "\n### Goals\n\n%s", r.Goals())
	}
	for _, s := range runner.Scenarios() {
		rs := slices.DeleteFunc(slices.Clone(r.rows), func(row *Row) bool { return row.Scenario != s.Name })
		if len(rs) > 0 {
			fmt.Fprintf(&b, "\n### %s: `%s`\n\n%s", s.Title, s.Name, table(rs, r.rows))
		}
	}
	return b.String()
}

func (r *Report) conditions() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- Measured on %s, on %s with %d CPUs, which clients and servers share.\n",
		r.Made.Format("2006-01-02"), machine(), runtime.NumCPU())
	fmt.Fprintf(&b, "- Versions: %s.\n", strings.Join(r.versions(), ", "))
	fmt.Fprintf(&b, "- Medians of %d rounds of %v each; some cells take a multiple of it. Ratios are taken within a round.\n",
		r.options.Rounds, r.options.Duration)
	b.WriteString("- ± is half the distance of the extremes. A column with an x divides the first figure by that of another peer, or of the healthy run.\n")
	if r.options.Rounds < 3 {
		b.WriteString("- With fewer than three rounds, the results are only a first impression.\n")
	}
	return b.String()
}

func machine() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	text, _ := os.ReadFile("/proc/cpuinfo") // only Linux has it
	if _, after, found := strings.Cut(string(text), "model name"); found {
		model, _, _ := strings.Cut(after, "\n")
		name += ", " + strings.TrimLeft(model, "\t :")
	}
	return name
}

func (r *Report) versions() (versions []string) {
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err == nil {
		versions = append(versions, "quorumlock "+strings.TrimSpace(string(commit)))
	}
	versions = append(versions, runtime.Version())
	for _, x := range r.Results {
		if v := x.Work.Version; v != "" && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			for _, path := range []string{"redis/rueidis", "redis/go-redis/v9", "go-redsync/redsync/v4"} {
				if d.Path == "github.com/"+path {
					versions = append(versions, path+" "+d.Version)
				}
			}
		}
	}
	return versions
}
