package render

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/bench/cell"
	"github.com/quorumlock/quorumlock/bench/peer"
	"github.com/quorumlock/quorumlock/bench/runner"
)

// Report is the content of all report files.
type Report struct {
	Made     time.Time     `json:"made"`
	System   string        `json:"system"`
	CPUs     int           `json:"cpus"`
	Go       string        `json:"go"`
	Rounds   int           `json:"rounds"`
	Duration time.Duration `json:"durationNs"`
	Quick    bool          `json:"quick"`
	Seed     uint64        `json:"seed"`
	Results  []cell.Result `json:"results"`

	rows []*Row
	// goalsOnly lists goals even if they were not measured.
	goalsOnly bool
}

// New makes a report of the results, in the order of the plan.
func New(o runner.Options, plan []cell.Cell, results []cell.Result) *Report {
	return &Report{
		Made: time.Now().UTC().Truncate(time.Second), System: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.NumCPU(), Go: runtime.Version(),
		Rounds: o.Rounds, Duration: o.Duration, Quick: o.Quick, Seed: o.Seed,
		Results: results, rows: rows(results, plan), goalsOnly: o.Goals,
	}
}

// Write writes the report into a directory, which it creates if necessary.
func Write(dir string, r *Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	page, err := r.html()
	if err != nil {
		return err
	}
	write := func(name string, content []byte) error {
		return os.WriteFile(filepath.Join(dir, name), append(content, '\n'), 0o644)
	}
	return errors.Join(write("results.json", text), write("results.md", []byte(r.markdown())), write("index.html", page))
}

// Section is one scenario.
type Section struct {
	Name, Title, About string
	Parts              []Part
}

// Part is the tables and charts of one load of a scenario.
type Part struct {
	Title  string
	Table  Table
	Charts []string // SVG
}

var loadTitles = map[cell.Load]string{
	cell.Handoff: "Hand-off: the last holder asks again at once",
	cell.Pass:    "Forced pass: the last holder asks again after another caller held it",
}

// sections are the measured scenarios.
func (r *Report) sections(withCharts bool) (sections []Section, err error) {
	for _, s := range runner.Scenarios() {
		section := Section{Name: s.Name, Title: s.Title, About: s.About}
		for _, load := range s.Full.Loads {
			rs, apart := r.rowsOf(s.Name, load)
			title := loadTitles[load]
			if len(s.Full.Loads) == 1 {
				title = ""
			}
			part := Part{Title: title, Table: table(rs, r.rows)}
			if withCharts && len(rs) > 0 {
				if part.Charts, err = charts(rs); err != nil {
					return nil, err
				}
			}
			section.add(part)
			section.add(Part{Title: strings.TrimPrefix(title+": another kind of system", ": "), Table: table(apart, r.rows)})
		}
		if len(section.Parts) > 0 {
			sections = append(sections, section)
		}
	}
	return sections, nil
}

func (s *Section) add(p Part) {
	if len(p.Table.Rows) > 0 {
		s.Parts = append(s.Parts, p)
	}
}

// rowsOf returns the rows of a scenario and load. The rows of other kinds of systems are separate.
func (r *Report) rowsOf(scenario string, load cell.Load) (rs, apart []*Row) {
	for _, row := range r.rows {
		if row.Scenario != scenario || row.Load != load {
			continue
		}
		if p, err := peer.Find(row.Peer); err == nil && p.Kind == peer.Apart {
			apart = append(apart, row)
		} else {
			rs = append(rs, row)
		}
	}
	return rs, apart
}

// peers returns the measured peers.
func (r *Report) peers() (peers []peer.Peer) {
	for _, p := range peer.All() {
		for _, row := range r.rows {
			if row.Peer == p.Name {
				peers = append(peers, p)
				break
			}
		}
	}
	return peers
}
