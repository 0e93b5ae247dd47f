package doctor

import (
	"fmt"
	"slices"
)

// Severity rates a finding.
type Severity int

// In ascending order. Unknown is neither an alarm nor an OK.
const (
	OK Severity = iota
	// Note is worth knowing, and may be intended.
	Note
	// Unknown means that a check was not possible.
	Unknown
	// Warning is a risk, or something that works less well than it could.
	Warning
	// Error breaks a promise of the library, or leaves its users without locks.
	Error
)

var severities = [...]string{"ok", "note", "unknown", "warning", "error"}

func (s Severity) String() string { return severities[s] }

// MarshalText is for JSON.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one result of a check.
type Finding struct {
	Severity Severity `json:"severity"`
	// Nodes are the nodes of the finding; none if it is about the whole set.
	Nodes []string `json:"nodes"`
	Found string   `json:"found"`
	Why   string   `json:"why"`
	Do    string   `json:"do"`
	// Commands are commands to type: in redis-cli on each of the nodes, or in a shell if they begin with quorumlock
	// or chronyc.
	Commands []string `json:"commands"`
}

// on adds the node to the finding.
func (f Finding) on(n *Node) Finding {
	f.Nodes = append(f.Nodes, n.Name)
	return f
}

// unknown is the finding for a check that was not possible.
func unknown(why error, format string, args ...any) Finding {
	return Finding{Severity: Unknown, Found: fmt.Sprintf(format, args...) + ": " + why.Error()}
}

// Check is the result of one check.
type Check struct {
	ID string `json:"id"`
	// About describes the aspect if there are no findings.
	About    string    `json:"about"`
	Severity Severity  `json:"severity"`
	Findings []Finding `json:"findings"`
}

// Report is the result of all checks.
type Report struct {
	// Severity is the severity of the worst finding.
	Severity Severity `json:"severity"`
	Checks   []Check  `json:"checks"`
}

// Count counts the findings of a severity.
func (r *Report) Count(s Severity) (count int) {
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if f.Severity == s {
				count++
			}
		}
	}
	return count
}

// merged joins equal findings of several nodes into one, the worst first.
func merged(findings []Finding) []Finding {
	all := make([]Finding, 0, len(findings))
	for _, f := range findings {
		if f.Nodes == nil {
			f.Nodes = []string{}
		}
		if f.Commands == nil {
			f.Commands = []string{}
		}
		if i := slices.IndexFunc(all, f.sameAs); i >= 0 {
			all[i].Nodes = append(all[i].Nodes, f.Nodes...)
		} else {
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return int(b.Severity - a.Severity) })
	return all
}

func (f Finding) sameAs(other Finding) bool {
	return f.Severity == other.Severity && f.Found == other.Found && f.Do == other.Do && slices.Equal(f.Commands, other.Commands)
}
