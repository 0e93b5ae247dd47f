package doctor

import (
	"slices"
	"strings"
)

// check checks one aspect. It returns its findings, or none if all is well.
type check struct {
	id string
	// about describes the aspect if all is well.
	about string
	judge func(*Facts) []Finding
}

// checks are all checks, in the order of the report.
var checks = []check{
	{"count", "an odd number of nodes", checkCount},
	{"reachable", "all nodes answer", checkReachable},
	{"version", "Redis from 6.2.7, or Valkey", each(checkVersion)},
	{"mode", "no cluster, and no Sentinel in the place of a node", each(checkMode)},
	{"role", "all are masters", each(checkRole)},
	{"usable", "the library accepts all servers", each(checkUsable)},
	{"eviction", "no key is evicted", each(checkEviction)},
	{"memory", "memory is left", each(checkMemory)},
	{"persistence", "what is on disk", each(checkPersistence)},
	{"identity", "each node is a server of its own", checkIdentity},
	{"marker", "all nodes give locks", each(checkMarker)},
	{"limits", "nodes are set up for these --max-ttl and --max-clock-skew", each(checkLimits)},
	{"replication", "no master goes on alone", each(checkReplication)},
	{"clock", "clocks agree", checkClocks},
	{"round-trip", "answers are fast enough", each(checkTrips)},
	{"lua", "scripts run", each(checkLua)},
	{"rights", "the user has all rights", each(checkRights)},
	{"alike", "servers are set up alike", checkAlike},
}

// Report runs all checks on the facts.
func (f *Facts) Report() *Report {
	r := &Report{}
	for _, c := range checks {
		done := Check{ID: c.id, About: c.about, Findings: merged(c.judge(f))}
		for _, finding := range done.Findings {
			done.Severity = max(done.Severity, finding.Severity)
		}
		r.Severity = max(r.Severity, done.Severity)
		r.Checks = append(r.Checks, done)
	}
	return r
}

// unreached is the finding about an unreachable node in all checks but one.
const unreached = "the node could not be asked"

// each turns a check of a single node into a check of the set.
func each(judge func(*Facts, *Node) []Finding) func(*Facts) []Finding {
	return func(f *Facts) (findings []Finding) {
		for i := range f.Nodes {
			n := &f.Nodes[i]
			if n.Unreached != nil {
				findings = append(findings, Finding{Severity: Unknown, Found: unreached}.on(n))
				continue
			}
			for _, finding := range judge(f, n) {
				findings = append(findings, n.possible(finding).on(n))
			}
		}
		return findings
	}
}

// byInfo turns a check that needs INFO into a check of the set.
func byInfo(judge func(*Facts, *Node, Info) []Finding) func(*Facts, *Node) []Finding {
	return func(f *Facts, n *Node) []Finding {
		if !n.Info.Known() {
			return []Finding{unknown(n.Info.Err, "INFO")}
		}
		return judge(f, n, n.Info.Value)
	}
}

// possible takes the advice to run CONFIG out of a finding for a server that does not know the command. Many providers
// have such servers.
func (n *Node) possible(f Finding) Finding {
	setting := func(command string) bool { return strings.HasPrefix(command, "CONFIG ") }
	if verdict, _ := verdictOf(n.Settings[settings[0]].Err); verdict != Missing || !slices.ContainsFunc(f.Commands, setting) {
		return f
	}
	f.Commands = slices.DeleteFunc(slices.Clone(f.Commands), setting)
	f.Do += " This server has no CONFIG: change the setting where your provider has its settings."
	return f
}
