package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

func checkMarker(f *Facts, n *Node) (findings []Finding) {
	if isReplica(n) {
		return nil // its data is its master's
	}
	if isWrongType(n.Fences) {
		findings = append(findings, strange(node.FencesKey(n.Tag), node.MarkerKey(n.Tag)))
	}
	switch m := n.Marker; {
	case isWrongType(m.Err):
		return append(findings, strange(node.MarkerKey(n.Tag)))
	case !m.Known():
		return append(findings, unknown(m.Err, "the marker of the node"))
	case m.Value == nil:
		return append(findings, f.unmarked())
	case !n.Info.Known():
		return append(findings, unknown(n.Info.Err, "whether the server restarted"))
	case m.Value.Identity != n.Info.Value["master_replid"]:
		return append(findings, restarted(max(m.Value.Limits.Recovery(), m.Value.Left)))
	case m.Value.Left > 0:
		return append(findings, recovering(m.Value.Left))
	default:
		return findings
	}
}

func isMarked(n *Node) bool { return n.Unreached == nil && n.Marker.Known() && n.Marker.Value != nil }

// strange is the finding for a key of another type at the name of the marker or the fences. The fences are deleted
// together with the marker: without it, the node waits until every token that it has forgotten is too old to be repeated.
func strange(key string, together ...string) Finding {
	what := "this key"
	if len(together) > 0 {
		what += " together with the marker"
	}
	return Finding{
		Severity: Error, Found: "the key " + key + " was not written by the library",
		Why:      "Another program wrote it, so the node can give no locks.",
		Do:       "Find out which program writes to keys that begin with quorumlock:, and delete " + what + ". Then the node recovers, and opens by itself.",
		Commands: []string{strings.Join(append([]string{"DEL", key}, together...), " ")},
	}
}

// isWrongType reports whether a server refused a command because the key has another type.
func isWrongType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }

// restarted is the finding for a node whose marker is of an earlier server process.
func restarted(length time.Duration) Finding {
	return Finding{
		Severity: Warning, Found: fmt.Sprintf("the server restarted, failed over, or got its first replica; it gives no new locks for %v from the first attempt on", length),
		Why: "It may have forgotten locks that are still held.",
		Do:  "Wait, and do not run quorumlock init. Find the cause, if it was not you (docs/on-call.md, \"Unexplained recoveries\").",
	}
}

func recovering(left time.Duration) Finding {
	return Finding{
		Severity: Warning, Found: fmt.Sprintf("the node recovers, and gives no new locks for another %v", roundUp(left)),
		Why: "It is new, or may have forgotten locks that are still held.",
		Do:  "Wait: the recovery ends by itself. Find out why the server restarted or was flushed, if it was not you.",
	}
}

// unmarked is the finding for a node without a marker: a new one, if all are like that.
func (f *Facts) unmarked() Finding {
	finding := Finding{
		Severity: Warning,
		Found:    fmt.Sprintf("the node has no marker (the key quorumlock:node); it gives no locks for %v from the first attempt on", f.Limits.Recovery()),
		Why:      "It is new, or has lost its memory; it cannot tell which. So it waits until every lock that it may have forgotten has expired.",
		Do:       "Wait, and do not run quorumlock init: other nodes were in use.",
	}
	if len(f.names(isMarked)) == 0 {
		finding.Do = "If no server was ever in use, open them once all of them answer. Otherwise wait: they open by themselves."
		finding.Commands = []string{fmt.Sprintf("quorumlock init --max-ttl %v --max-clock-skew %v", f.Limits.MaxTTL, f.Limits.MaxClockSkew)}
	}
	return finding
}

// roundUp makes a time readable, and never shorter.
func roundUp(d time.Duration) time.Duration {
	const unit = 100 * time.Millisecond
	return (d + unit - 1).Truncate(unit)
}

func checkLimits(f *Facts, n *Node) []Finding {
	m := n.Marker
	switch {
	case isReplica(n) || m.Known() && m.Value == nil: // a new one takes the limits of its first client
		return nil
	case !m.Known():
		return []Finding{unknown(m.Err, "the limits of the node")}
	case m.Value.Limits == f.Limits:
		return nil
	}
	l := m.Value.Limits
	return []Finding{{
		Severity: Error, Found: fmt.Sprintf("the node is set up for MaxTTL %v and MaxClockSkew %v, not %v and %v",
			l.MaxTTL, l.MaxClockSkew, f.Limits.MaxTTL, f.Limits.MaxClockSkew),
		Why: "All programs must have the same limits, as each relies on the others. The node refuses programs with other limits.",
		Do: "If the programs have the limits of the node, pass these to doctor too (--max-ttl, --max-clock-skew). " +
			"If not, configure all programs alike. Or stop all of them, and change the limits of the nodes.",
		Commands: []string{fmt.Sprintf("quorumlock init --change-limits --max-ttl %v --max-clock-skew %v", f.Limits.MaxTTL, f.Limits.MaxClockSkew)},
	}}
}
