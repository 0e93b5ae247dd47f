// Package render writes the report: results.csv with all results, results.md with tables, and charts beside it. It also
// writes the figures into a document.
package render

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/peer"
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
	text, charts := r.markdown()
	errs := []error{
		os.WriteFile(filepath.Join(dir, "results.csv"), []byte(r.csv()), 0o644),
		os.WriteFile(filepath.Join(dir, "results.md"), []byte(text), 0o644),
	}
	for name, svg := range charts {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(svg), 0o644))
	}
	return errors.Join(errs...)
}

// csv returns all figures of all results, each cell of each round in a line. A figure that was not measured is empty.
func (r *Report) csv() string {
	head := []string{"round", "scenario", "peer", "load", "callers", "processes", "nodes", "variant", "error"}
	keys := len(head)
	var figures []figure
	for _, s := range runner.Scenarios() {
		for _, c := range columns(s.Name) {
			for i, of := range c.figures {
				if name := c.names()[i]; !slices.Contains(head, name) {
					head, figures = append(head, name), append(figures, of)
				}
			}
		}
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(head) // to memory, as below
	for _, x := range r.Results {
		fields := append(make([]string, 0, keys+len(figures)),
			strconv.Itoa(x.Round), x.Scenario, x.Peer, string(x.Load), strconv.Itoa(x.Callers), strconv.Itoa(x.Processes),
			strconv.Itoa(x.Nodes), x.Variant(), x.Error)
		for _, of := range figures {
			text := ""
			if v := of(x); x.Error == "" && !math.IsNaN(v) {
				text = strconv.FormatFloat(v, 'g', 6, 64)
			}
			fields = append(fields, text)
		}
		_ = w.Write(fields)
	}
	w.Flush()
	return b.String()
}

// markdown returns the report, and the charts that it shows, by their names.
func (r *Report) markdown() (text string, charts map[string]string) {
	var b strings.Builder
	charts = map[string]string{}
	fmt.Fprintf(&b, "# Benchmarks\n\n%s", r.conditions())
	if r.options.Quick {
		b.WriteString("\nThis was a quick run, which only shows that everything works. Its figures mean nothing.\n")
	}
	if goals := r.goals(); len(goals.Rows) > 0 {
		fmt.Fprintf(&b, "\n## Goals\n\n%s", goals.markdown())
	}
	for _, s := range runner.Scenarios() {
		rs := r.rowsOf(s.Name)
		if len(rs) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.Title, s.About)
		cs := columns(s.Name)
		of, unit := unitOf(rs[0].Load)
		charts[s.Name+".svg"] = newChart(s.Title, unit, cs, rs, r.rows, of).svg()
		fmt.Fprintf(&b, "\n%s\n![%s](%s.svg)\n", table(cs, rs, r.rows).markdown(), unit, s.Name)
	}
	b.WriteString("\n## Peers\n\n")
	for _, p := range peer.All() {
		if slices.ContainsFunc(r.rows, func(row *Row) bool { return row.Peer == p.Name }) {
			fmt.Fprintf(&b, "- **%s**: %s\n", p.Name, p.About)
		}
	}
	return b.String(), charts
}

// unitOf returns the figure that a chart shows for a load, and its unit.
func unitOf(l cell.Load) (of figure, unit string) {
	switch l {
	case cell.Wait:
		return sentRate, "commands a second and node"
	case cell.Hold:
		return heapPerLease, "bytes of heap per lease"
	default:
		return rate, "operations a second"
	}
}

// rowsOf returns the rows of a scenario.
func (r *Report) rowsOf(scenario string) (rs []*Row) {
	for _, row := range r.rows {
		if row.Scenario == scenario {
			rs = append(rs, row)
		}
	}
	return rs
}

// inOrder returns the different words, in the order in which they first occur.
func inOrder(words []string) (different []string) {
	for _, w := range words {
		if !slices.Contains(different, w) {
			different = append(different, w)
		}
	}
	return different
}

// conditions describes the conditions of the measurement.
func (r *Report) conditions() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- Measured on %s, on %s with %d CPUs, which clients and servers share.\n",
		r.Made.Format("2006-01-02"), machine(), runtime.NumCPU())
	fmt.Fprintf(&b, "- Versions: %s.\n", strings.Join(r.versions(), ", "))
	fmt.Fprintf(&b, "- Medians of %d rounds of %v each; some cells take a multiple of it. Ratios are taken within a round.\n",
		r.options.Rounds, r.options.Duration)
	b.WriteString("- ± is half the distance of the extremes.\n")
	if r.options.Rounds < 3 {
		b.WriteString("- With fewer than three rounds, the results are only a first impression.\n")
	}
	return b.String()
}

// machine names the system and the processor.
func machine() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	text, _ := os.ReadFile("/proc/cpuinfo") // only Linux has it
	if _, after, found := strings.Cut(string(text), "model name"); found {
		model, _, _ := strings.Cut(after, "\n")
		name += ", " + strings.TrimLeft(model, "\t :")
	}
	return name
}

// versions names the programs that were measured.
func (r *Report) versions() (versions []string) {
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err == nil {
		versions = append(versions, "quorumlock "+strings.TrimSpace(string(commit)))
	}
	versions = append(versions, runtime.Version())
	for _, x := range r.Results {
		if x.Work.Version != "" {
			versions = append(versions, x.Work.Version)
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			for _, path := range []string{"redis/rueidis", "redis/go-redis/v9", "go-redsync/redsync/v4", "bsm/redislock"} {
				if d.Path == "github.com/"+path {
					versions = append(versions, path+" "+d.Version)
				}
			}
		}
	}
	return inOrder(versions)
}
