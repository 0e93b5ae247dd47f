package doctor

import (
	"fmt"
	"slices"
	"strings"
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

// Check is the result of one check.
type Check struct {
	ID       string    `json:"id"`
	Severity Severity  `json:"severity"`
	Findings []Finding `json:"findings"`
}

// Report is the result of all checks.
type Report struct {
	// Severity is the severity of the worst finding.
	Severity Severity `json:"severity"`
	Checks   []Check  `json:"checks"`
}

func (r *Report) count(s Severity) (count int) {
	for _, c := range r.Checks {
		for _, f := range c.Findings {
			if f.Severity == s {
				count++
			}
		}
	}
	return count
}

type judge struct {
	*Facts
	// nodes are those of which the check knows what it needs, for a check of the set.
	nodes    []*Node
	findings []Finding
}

// find reports what was found on a node, why it matters, and what to do. n is nil for a finding about the whole set. One
// finding covers all nodes that have it.
func (j *judge) find(n *Node, s Severity, found, why, do string, commands ...string) {
	f := Finding{Severity: s, Nodes: []string{}, Found: found, Why: why, Do: do, Commands: append([]string{}, commands...)}
	if n != nil {
		f = n.possible(f)
		f.Nodes = append(f.Nodes, n.Name)
	}
	same := func(other Finding) bool {
		return f.Severity == other.Severity && f.Found == other.Found && f.Do == other.Do && slices.Equal(f.Commands, other.Commands)
	}
	if i := slices.IndexFunc(j.findings, same); i >= 0 {
		j.findings[i].Nodes = append(j.findings[i].Nodes, f.Nodes...)
		return
	}
	j.findings = append(j.findings, f)
}

// unknown reports a check that was not possible, and why, if that is known.
func (j *judge) unknown(n *Node, why error, format string, args ...any) {
	found := fmt.Sprintf(format, args...)
	if why != nil {
		found += ": " + why.Error()
	}
	j.find(n, Unknown, found, "", "")
}

// possible takes the advice to run CONFIG out of a finding for a server that does not know the command. Many providers
// have such servers.
func (n *Node) possible(f Finding) Finding {
	setting := func(command string) bool { return strings.HasPrefix(command, "CONFIG ") }
	if verdict, _ := verdictOf(n.Settings["min-replicas-to-write"].Err); verdict != Missing || !slices.ContainsFunc(f.Commands, setting) {
		return f
	}
	f.Commands = slices.DeleteFunc(f.Commands, setting)
	f.Do += " This server has no CONFIG: change the setting where your provider has its settings."
	return f
}
