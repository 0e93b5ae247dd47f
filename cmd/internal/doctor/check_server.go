package doctor

import (
	"fmt"
	"strings"
)

// usable reports the library's own reason to refuse a server. The reason says what to do.
func (j *judge) usable(n *Node) {
	switch {
	case n.Unseen != "":
		j.find(n, Warning, "the server cannot tell that it has lost its memory, which --allow-unseen-losses permits: "+n.Unseen,
			"After a restart or a failover with data from before, two clients could hold one lock. The library uses the server all the same.",
			"Use these locks only to save work, never to protect data. Otherwise take another server (docs/where-it-runs.md), and take --allow-unseen-losses away.")
	case n.Refused == nil && !n.Info.Known():
		j.unknown(n, n.Info.Err, "INFO")
	case n.Refused == nil:
	case n.Info.Value["loading"] == "1" || strings.Contains(n.Refused.Error(), "LOADING"):
		j.find(n, Warning, "the server is loading its data from disk", "Until it is done, it answers no command.", "Wait, and look again.")
	default:
		var commands []string
		if strings.Contains(n.Refused.Error(), "maxmemory-policy") {
			commands = noEviction
		}
		j.find(n, Error, "the library does not use the server: "+n.Refused.Error(),
			"A node that is not used has no vote.", "See the table of errors in docs/handbook.md.", commands...)
	}
}

// noEviction are the commands that end evictions.
var noEviction = []string{"CONFIG SET maxmemory-policy noeviction", rewrite}

const rewrite = "CONFIG REWRITE"

// eviction judges what the library accepts. It refuses a server that may evict locks, unless that is allowed.
func (j *judge) eviction(n *Node) {
	policy, limit, evicted := n.Info.Value["maxmemory_policy"], n.Info.Value["maxmemory"], n.Info.Value.number("evicted_keys")
	switch {
	case policy == "":
		j.unknown(n, nil, "INFO does not show the maxmemory-policy")
	case policy != "noeviction" && limit != "0" && n.AllowEviction:
		j.find(n, Warning, "maxmemory-policy is "+policy+", which --allow-eviction permits",
			"A lock that is evicted is an unnoticed loss of memory: two clients could hold it. The library uses the server all the same.",
			"Use these locks only to save work, never to protect data. Otherwise set the policy to noeviction, and take --allow-eviction away.", noEviction...)
	case evicted > 0:
		j.find(n, Warning, fmt.Sprintf("%d keys were evicted since the server started", evicted),
			"Locks may have been among them, unnoticed.",
			"Nothing, if that was longer ago than the MaxTTL, and the policy is noeviction now. CONFIG RESETSTAT resets the count.")
	case policy != "noeviction" && limit == "0":
		j.find(n, Note, "maxmemory-policy is "+policy+", without effect as maxmemory is 0",
			"As soon as maxmemory is set, the server may evict locks. The library then refuses it, within ten seconds.",
			"Leave it, or set the policy to noeviction, in the configuration file too.", noEviction...)
	}
}

// scarce is the used share of memory, in percent, from which on to warn.
const scarce = 90

func (j *judge) memory(n *Node) {
	info := n.Info.Value
	limit, used := info.number("maxmemory"), info.number("used_memory")-info.number("mem_not_counted_for_evict")
	if limit <= 0 || used*100 < limit*scarce {
		return
	}
	severity, found := Warning, fmt.Sprintf("%d%% of maxmemory are used", used*100/limit)
	if used >= limit {
		severity, found = Error, "the server is out of memory: "+found
	}
	j.find(n, severity, found, "A server that is out of memory gives no locks.",
		"Find out what fills it, as locks are small. Or raise the limit, in the configuration file too.",
		fmt.Sprintf("CONFIG SET maxmemory %d", max(2*used, 2*limit)), rewrite)
}

// persistence does not require a disk: exclusion does not depend on it. But a server that fails to write to its disk
// accepts no writes at all.
func (j *judge) persistence(n *Node) {
	info := n.Info.Value
	switch {
	case info["aof_last_write_status"] == "err":
		j.find(n, Error, "the last write to the append-only file failed",
			"Until a write succeeds, the server refuses all commands that write, so it gives no locks.",
			"Look at the server's log and at its disk. It recovers by itself once there is space.")
	case info["rdb_last_bgsave_status"] == "err":
		j.snapshot(n)
	}
}

func (j *judge) snapshot(n *Node) {
	severity, found := Warning, "the last snapshot failed"
	switch stop := n.Settings["stop-writes-on-bgsave-error"]; {
	case !stop.Known():
		found += "; whether stop-writes-on-bgsave-error is on could not be read: " + stop.Err.Error()
	case stop.Value == "yes":
		severity, found = Error, found+", and stop-writes-on-bgsave-error is on"
	}
	j.find(n, severity, found,
		"With stop-writes-on-bgsave-error, the server refuses all writes after that, so it gives no locks.",
		"Look at the server's log and at its disk. A server for locks alone needs no snapshots: turn them off, in the configuration file too.",
		`CONFIG SET save ""`, rewrite)
}
