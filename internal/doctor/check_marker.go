package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

func checkMarkers(f *Facts) []Finding {
	findings := f.notAsked()
	unmarked := f.names(isUnmarked)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if n.Unreached == nil && !isReplica(n) && isWrongType(n.Fences) {
			findings = append(findings, strangeFences(node.FencesKey(n.Tag), node.MarkerKey(n.Tag)).on(n))
		}
		switch m := n.Marker; {
		case n.Unreached != nil || isReplica(n): // its data is its master's
		case isWrongType(m.Err):
			findings = append(findings, strangeMarker(node.MarkerKey(n.Tag)).on(n))
		case !m.Known():
			findings = append(findings, unknown(m.Err, "the marker of the node").on(n))
		case m.Value == nil:
		case !n.Info.Known():
			findings = append(findings, unknown(n.Info.Err, "whether the server restarted").on(n))
		case m.Value.Identity != n.Info.Value["master_replid"]:
			findings = append(findings, restarted(f.recoveryOf(m.Value)).on(n))
		case m.Value.Left > 0:
			findings = append(findings, recovering(m.Value.Left).on(n))
		}
	}
	if len(unmarked) > 0 {
		findings = append(findings, f.unmarked(unmarked))
	}
	return findings
}

func isUnmarked(n *Node) bool {
	return n.Unreached == nil && !isReplica(n) && n.Marker.Known() && n.Marker.Value == nil
}

func isMarked(n *Node) bool { return n.Unreached == nil && n.Marker.Known() && n.Marker.Value != nil }

// strangeMarker is the finding for a key of another type at the marker's name.
func strangeMarker(key string) Finding {
	return Finding{
		Severity: Error, Found: "the key " + key + " was not written by the library",
		Why:      "Another program wrote it, so the node can give no locks.",
		Do:       "Find out which program writes to keys that begin with quorumlock:, and delete this key. Then the node recovers, and opens by itself.",
		Commands: []string{"DEL " + key},
	}
}

// strangeFences is the finding for a key of another type at the name of the fences. Without the marker,
// the node waits until every token that it has forgotten is too old to be repeated.
func strangeFences(key, marker string) Finding {
	return Finding{
		Severity: Error, Found: "the key " + key + " was not written by the library",
		Why: "Another program wrote it, so the node can give no locks.",
		Do: "Find out which program writes to keys that begin with quorumlock:, and delete this key together with the marker. " +
			"Then the node recovers, and opens by itself.",
		Commands: []string{"DEL " + key + " " + marker},
	}
}

// isWrongType reports whether a server refused a command because the key has another type.
func isWrongType(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") }

// recoveryOf is the length of a recovery on a node whose marker is of an earlier server process.
func (f *Facts) recoveryOf(m *Marker) time.Duration { return max(m.Limits.Recovery(), m.Left) }

func restarted(length time.Duration) Finding {
	return Finding{
		Severity: Warning, Found: fmt.Sprintf("the server restarted, failed over, or got its first replica; it gives no new locks for %v from the first attempt on", length),
		Why: "It may have forgotten locks that are still held.",
		Do:  "Wait, and do not run quorumlock init. Find the cause, if it was not you (docs/failures.md, \"Unexplained recoveries\").",
	}
}

func recovering(left time.Duration) Finding {
	return Finding{
		Severity: Warning, Found: fmt.Sprintf("the node recovers, and gives no new locks for another %v", roundUp(left)),
		Why: "It is new, or may have forgotten locks that are still held.",
		Do:  "Wait: the recovery ends by itself. Find out why the server restarted or was flushed, if it was not you.",
	}
}

// unmarked is the finding for nodes without a marker: new ones, if all are like that.
func (f *Facts) unmarked(names []string) Finding {
	finding := Finding{
		Severity: Warning, Nodes: names,
		Found: fmt.Sprintf("the node has no marker (the key quorumlock:node); it gives no locks for %v from the first attempt on", f.Limits.Recovery()),
		Why:   "It is new, or has lost its memory; it cannot tell which. So it waits until every lock that it may have forgotten has expired.",
		Do:    "Wait, and do not run quorumlock init: other nodes were in use.",
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

func checkLimits(f *Facts) []Finding {
	findings := f.notAsked()
	for i := range f.Nodes {
		n := &f.Nodes[i]
		switch m := n.Marker; {
		case n.Unreached != nil || isReplica(n) || isUnmarked(n): // a new one takes the limits of its first client
		case !m.Known():
			findings = append(findings, unknown(m.Err, "the limits of the node").on(n))
		case m.Value.Limits != f.Limits:
			findings = append(findings, f.otherLimits(m.Value.Limits).on(n))
		}
	}
	return findings
}

func (f *Facts) otherLimits(l node.Limits) Finding {
	return Finding{
		Severity: Error, Found: fmt.Sprintf("the node is set up for MaxTTL %v and MaxClockSkew %v, not %v and %v",
			l.MaxTTL, l.MaxClockSkew, f.Limits.MaxTTL, f.Limits.MaxClockSkew),
		Why: "All programs must have the same limits, as each relies on the others. The node refuses programs with other limits.",
		Do: "If the programs have the limits of the node, pass these to doctor too (--max-ttl, --max-clock-skew). " +
			"If not, configure all programs alike. Or stop all of them, and change the limits of the nodes.",
		Commands: []string{fmt.Sprintf("quorumlock init --change-limits --max-ttl %v --max-clock-skew %v", f.Limits.MaxTTL, f.Limits.MaxClockSkew)},
	}
}
