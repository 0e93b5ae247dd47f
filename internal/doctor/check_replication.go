package doctor

import (
	"fmt"
	"strconv"
	"time"
)

// goodReplicas is a field of INFO that exists only if min-replicas-to-write is set.
const goodReplicas = "min_slaves_good_slaves"

// checkReplication looks for masters that would continue to confirm writes when they are cut off, while one of their
// replicas is promoted.
var checkReplication = byInfo(func(f *Facts, n *Node, info Info) []Finding {
	_, guarded := info[goodReplicas]
	switch {
	case !info.master():
		return nil // checkRole has said it
	case guarded:
		return f.checkGuarded(n, info)
	case n.Tag != "":
		return f.checkCluster(n)
	case n.Sentinel || info.number("connected_slaves") > 0:
		return []Finding{{
			Severity: n.danger(), Found: "the server has replicas, or Sentinels watch it, and min-replicas-to-write is 0",
			Why: "A master that is cut off from its replicas goes on giving locks while one of them is promoted. Then two clients could hold one lock.",
			Do: "The nodes need no replicas: remove them, if no other program needs them. Otherwise set this on the replicas too, and in their " +
				"configuration files. Set MaxClockSkew to 2s or more, and have two replicas (docs/servers.md, \"Behind Sentinel\").",
			Commands: []string{"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-max-lag 1", "CONFIG REWRITE"},
		}}
	default:
		return nil
	}
})

// setting returns a setting that is a number.
func (n *Node) setting(name string) (int64, error) {
	s := n.Settings[name]
	if !s.Known() {
		return 0, s.Err
	}
	return strconv.ParseInt(s.Value, 10, 32)
}

// checkCluster checks how long an owner of a slot that is cut off goes on giving locks. It stops by itself after one and
// a half times the timeout, and its replica is promoted after the timeout at the earliest.
func (f *Facts) checkCluster(n *Node) []Finding {
	const name = "cluster-node-timeout"
	ms, err := n.setting(name)
	if err != nil {
		return []Finding{unknown(err, "%s, which must be at most MaxClockSkew (%v)", name, f.Limits.MaxClockSkew)}
	}
	timeout := time.Duration(ms) * time.Millisecond
	if timeout <= f.Limits.MaxClockSkew {
		return nil
	}
	return []Finding{{
		Severity: Error, Found: fmt.Sprintf("%s is %v, and MaxClockSkew is %v", name, timeout, f.Limits.MaxClockSkew),
		Why: "An owner of the slot that is cut off goes on giving locks for a while after its replica is promoted. MaxClockSkew must be at least " +
			"the timeout. Otherwise the new owner can give a lock again that the old one gave last.",
		Do: "Lower the timeout on all servers of the cluster, in their configuration files too, or raise MaxClockSkew. To raise it, stop all programs, " +
			"set the nodes up anew, and configure all programs like that. Or set min-replicas-to-write (docs/servers.md, \"Redis Cluster\").",
		Commands: []string{fmt.Sprintf("CONFIG SET %s %d", name, f.Limits.MaxClockSkew.Milliseconds()), "CONFIG REWRITE"},
	}}
}

// danger rates the risk of two masters. A Sentinel and a cluster promote replicas, so they raise the risk.
func (n *Node) danger() Severity {
	if n.Sentinel || n.Tag != "" {
		return Error
	}
	return Warning
}

// checkGuarded checks a master that refuses writes without replicas.
func (f *Facts) checkGuarded(n *Node, info Info) (findings []Finding) {
	findings = append(findings, n.checkGoodReplicas(info)...)
	lag, err := n.setting("min-replicas-max-lag")
	if err != nil {
		return append(findings, unknown(err, "min-replicas-max-lag, which must be a second less than MaxClockSkew (%v)", f.Limits.MaxClockSkew))
	}
	if f.Limits.MaxClockSkew < time.Duration(lag+1)*time.Second {
		findings = append(findings, f.tooLate(n, lag))
	}
	return findings
}

func (n *Node) checkGoodReplicas(info Info) []Finding {
	needed, err := n.setting("min-replicas-to-write")
	if err != nil {
		needed = 1 // at least
	}
	switch good := info.number(goodReplicas); {
	case good < needed:
		return []Finding{{
			Severity: Error, Found: fmt.Sprintf("%d replicas keep up, and min-replicas-to-write demands %d", good, needed),
			Why:      "A master without its replicas accepts no writes, so it gives no locks.",
			Do:       "Bring the replicas back. If the server needs no replicas, and no Sentinel watches it, turn the setting off.",
			Commands: []string{"CONFIG SET min-replicas-to-write 0", "CONFIG REWRITE"},
		}}
	case good == needed:
		return []Finding{{
			Severity: Note, Found: fmt.Sprintf("%d replicas keep up, as many as min-replicas-to-write demands", good),
			Why: "When one of them is lost, or promoted, the master gives no locks.", Do: "Add a replica.",
		}}
	default:
		return nil
	}
}

// The lag to recommend, and the MaxClockSkew that it requires.
const (
	shortLag = 1
	leastFor = (shortLag + 1) * time.Second
)

// tooLate is the finding for a master that stops later than its successor begins.
func (f *Facts) tooLate(n *Node, lag int64) Finding {
	finding := Finding{
		Severity: n.danger(), Found: fmt.Sprintf("min-replicas-max-lag is %d s, and MaxClockSkew is %v", lag, f.Limits.MaxClockSkew),
		Why: "A master that is cut off gives locks for the lag and a second more. MaxClockSkew must be at least that long. Otherwise the " +
			"new master can give a lock again that the old one gave last.",
		Do: fmt.Sprintf("Lower the lag to %d s, on the replicas too. MaxClockSkew must then be at least %v.", shortLag, leastFor),
	}
	if lag > shortLag {
		finding.Commands = []string{fmt.Sprintf("CONFIG SET min-replicas-max-lag %d", shortLag), "CONFIG REWRITE"}
	}
	if f.Limits.MaxClockSkew < leastFor {
		finding.Do += " To raise it, stop all programs, set the nodes up anew, and configure all programs like that."
		finding.Commands = append(finding.Commands,
			fmt.Sprintf("quorumlock init --change-limits --max-ttl %v --max-clock-skew %v", max(f.Limits.MaxTTL, 2*leastFor), leastFor))
	}
	return finding
}
