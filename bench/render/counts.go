package render

import "slices"

// countedFigures explain a rate, and scatter less than times.
var countedFigures = []string{
	"client CPU us/op", "server CPU us/op", "allocs/op", "commands/op", "client reads and writes/op", "client wake-ups/op",
	"server reads and writes/op", "server wake-ups/op",
}

// counts returns a table of the cost of one operation, with a row for each cell that misses a goal, and for the cell that
// the goal compares it with. It leaves out cells in which callers only wait, and is empty if there are no others.
func (r *Report) counts() string {
	var shown []*Row
	for _, g := range goals {
		for _, row := range r.rows {
			if !g.selects(row) || g.verdict(g.of(row, r.rows)) != notReached {
				continue
			}
			for _, row := range []*Row{row, row.reference(r.rows, g.to)} {
				if row != nil && !slices.Contains(shown, row) && row.stat(named("commands/op")).Rounds > 0 {
					shown = append(shown, row)
				}
			}
		}
	}
	if shown == nil {
		return ""
	}
	lines := [][]string{append([]string{"scenario", "callers", "variant", "peer"}, countedFigures...)}
	for _, row := range shown {
		line := []string{row.Scenario, row.Size(), row.Variant(), row.Peer}
		for _, name := range countedFigures {
			line = append(line, row.stat(named(name)).median())
		}
		lines = append(lines, line)
	}
	return "\nWhat an operation takes in the cells that miss a goal, and in those that they are compared with:\n\n" + markdown(lines)
}
