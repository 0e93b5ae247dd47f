package render

import (
	"fmt"
	"strings"
)

// markdown returns the report without charts.
func (r *Report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Benchmarks\n\n%s\n", r.conditions())
	if goals := r.goals(); len(goals.Rows) > 0 {
		fmt.Fprintf(&b, "\n## Goals\n\n%s", goals.markdown())
	}
	sections, _ := r.sections(false) // only charts can fail
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", s.Title, s.About)
		for _, p := range s.Parts {
			if p.Title != "" {
				fmt.Fprintf(&b, "\n### %s\n", p.Title)
			}
			fmt.Fprintf(&b, "\n%s", p.Table.markdown())
		}
	}
	b.WriteString("\n## Peers\n\n")
	for _, p := range r.peers() {
		fmt.Fprintf(&b, "- **%s**: %s\n", p.Name, p.About)
	}
	return strings.TrimSpace(b.String())
}

// conditions describes the conditions of the measurement.
func (r *Report) conditions() string {
	text := fmt.Sprintf("Measured %s on %s with %d CPUs, which clients and servers share; %s. Medians of %d rounds of %v each; ± is half the distance of the extremes. Ratios are taken within a round.",
		r.Made.Format("2006-01-02"), r.System, r.CPUs, r.Go, r.Rounds, r.Duration)
	if r.Rounds < 3 {
		text += " With fewer than three rounds, the results are only a first impression."
	}
	return text
}
