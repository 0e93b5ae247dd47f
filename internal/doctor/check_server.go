package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// oldest is the oldest version that the library supports.
var oldest = [3]int{6, 2, 7}

var checkVersion = byInfo(func(_ *Facts, _ *Node, info Info) []Finding {
	version := info["redis_version"] // forks tell the one that they are compatible with, too
	parsed, err := parseVersion(version)
	switch {
	case err != nil:
		return []Finding{{Severity: Unknown, Found: fmt.Sprintf("the version %q cannot be read", version)}}
	case slices.Compare(parsed[:], oldest[:]) < 0:
		return []Finding{{
			Severity: Error, Found: "the server is " + info.version(),
			Why: "Before Redis 6.2.7, scripts ignore min-replicas-to-write, so behind Sentinel two clients could hold one lock. The library refuses the server.",
			Do:  "Upgrade the server to 6.2.7 or later, one node at a time (docs/on-call.md, \"Restarting nodes that have no disk\").",
		}}
	default:
		return nil
	}
})

// parseVersion parses a version with three numbers.
func parseVersion(text string) (v [3]int, err error) {
	parts := strings.SplitN(text, ".", len(v))
	if len(parts) < len(v) {
		return v, errors.New("too short")
	}
	for i := range v {
		if v[i], err = strconv.Atoi(parts[i]); err != nil {
			return v, err
		}
	}
	return v, nil
}

var checkMode = byInfo(func(_ *Facts, n *Node, info Info) []Finding {
	if !outOfPlace(n, info) {
		return nil
	}
	return []Finding{{
		Severity: Error, Found: "the server runs as part of a Redis Cluster",
		Why: "A cluster spreads keys over its servers, and a script reaches only the keys of one server. The library refuses the server.",
		Do: "Make the node one slot of the cluster, by a tag in its address (docs/servers.md, \"Redis Cluster\"). Or run an independent server: " +
			"set \"cluster-enabled no\" in its configuration file, and restart it.",
	}}
})

// outOfPlace reports whether the server is part of a cluster, and the node is not a slot of it.
func outOfPlace(n *Node, info Info) bool { return info["cluster_enabled"] == "1" && n.Tag == "" }

var checkRole = byInfo(func(_ *Facts, n *Node, info Info) []Finding {
	if role := info["role"]; role != "" && role != "master" && !isReplica(n) {
		return []Finding{{
			Severity: Error, Found: fmt.Sprintf("the role of the server is %q", role),
			Why: "Only a master decides alone which locks it gives. The library refuses other servers.",
			Do:  "Turn off active replication (KeyDB's active-replica and multi-master), or use another server.",
		}}
	}
	if !isReplica(n) {
		return nil
	}
	master := info["master_host"] + ":" + info["master_port"]
	return []Finding{{
		Severity: Error, Found: "the server is a replica of " + master,
		Why: "A replica has a copy of its master's data: it gives no locks, and its vote would not be independent.",
		Do:  "List " + master + " instead, unless it is a node already; or make the server independent, if it should be a node of its own.",
		// The server then has another identity, and recovers first.
		Commands: []string{"REPLICAOF NO ONE"},
	}}
})

// checkUsable reports the library's own reason to refuse a server, if no other check explains it.
func checkUsable(_ *Facts, n *Node) []Finding {
	if n.Refused == nil || n.explained() {
		return nil
	}
	if n.Info.Value["loading"] == "1" || strings.Contains(n.Refused.Error(), "LOADING") {
		return []Finding{{
			Severity: Warning, Found: "the server is loading its data from disk",
			Why: "Until it is done, it answers no command.", Do: "Wait, and look again.",
		}}
	}
	return []Finding{{
		Severity: Error, Found: "the library does not use the server: " + n.Refused.Error(),
		Why: "A node that is not used has no vote.",
		Do:  "See the table of errors in docs/handbook.md.",
	}}
}

// explained reports whether another check says why the library refuses the server.
func (n *Node) explained() bool {
	info := n.Info.Value
	version, err := parseVersion(info["redis_version"])
	return !n.Info.Known() || isReplica(n) || evictionOf(info) != "" || outOfPlace(n, info) || info["role"] != "master" ||
		err == nil && slices.Compare(version[:], oldest[:]) < 0
}

// evictionOf says by which settings the server may evict locks, or returns "". Without a limit no policy evicts
// anything. A limit that INFO does not show may be there.
func evictionOf(info Info) string {
	policy, limit := info["maxmemory_policy"], info["maxmemory"]
	switch {
	case policy == "" || policy == "noeviction" || limit == "0":
		return ""
	case limit == "":
		return "maxmemory-policy is " + policy + ", INFO does not show maxmemory"
	default:
		return "maxmemory-policy is " + policy + ", maxmemory is " + limit + " bytes"
	}
}

// noEviction are the commands that end evictions.
var noEviction = []string{"CONFIG SET maxmemory-policy noeviction", "CONFIG REWRITE"}

var checkEviction = byInfo(func(_ *Facts, n *Node, info Info) []Finding {
	switch settings := evictionOf(info); {
	case info["maxmemory_policy"] == "":
		return []Finding{{Severity: Unknown, Found: "INFO does not show the maxmemory-policy"}}
	case settings != "" && n.AllowEviction:
		return []Finding{{
			Severity: Warning, Found: settings + ", which --allow-eviction permits",
			Why:      "A lock that is evicted is an unnoticed loss of memory: two clients could hold it. The library uses the server all the same.",
			Do:       "Use these locks only to save work, never to protect data. Otherwise set the policy to noeviction, and take --allow-eviction away.",
			Commands: noEviction,
		}}
	case settings != "":
		return []Finding{{
			Severity: Error, Found: settings,
			Why: "A lock that is evicted is an unnoticed loss of memory: two clients could hold it. So the library refuses the server.",
			Do: "Set the policy to noeviction, in the configuration file too (CONFIG REWRITE does that, if there is one). " +
				"If the server also serves as a cache, run another one for locks. If locks only save work, programs may set AllowEviction.",
			Commands: noEviction,
		}}
	case info.number("evicted_keys") > 0:
		return []Finding{{
			Severity: Warning, Found: fmt.Sprintf("%d keys were evicted since the server started", info.number("evicted_keys")),
			Why: "Locks may have been among them, unnoticed. The present settings evict nothing.",
			Do:  "Nothing, if that was longer ago than the MaxTTL. CONFIG RESETSTAT resets the count.",
		}}
	case info["maxmemory_policy"] != "noeviction":
		return []Finding{{
			Severity: Note, Found: "maxmemory-policy is " + info["maxmemory_policy"] + ", without effect as maxmemory is 0",
			Why:      "As soon as maxmemory is set, the server may evict locks. The library then refuses it, within ten seconds.",
			Do:       "Leave it, or set the policy to noeviction, in the configuration file too.",
			Commands: noEviction,
		}}
	default:
		return nil
	}
})

// scarce is the used share of memory, in percent, from which on to warn.
const scarce = 90

var checkMemory = byInfo(func(_ *Facts, _ *Node, info Info) []Finding {
	limit, used := info.number("maxmemory"), info.number("used_memory")-info.number("mem_not_counted_for_evict")
	if limit <= 0 || used*100 < limit*scarce {
		return nil
	}
	f := Finding{
		Severity: Warning, Found: fmt.Sprintf("%d%% of maxmemory are used", used*100/limit),
		Why:      "A server that is out of memory gives no locks.",
		Do:       "Find out what fills it, as locks are small. Or raise the limit, in the configuration file too.",
		Commands: []string{fmt.Sprintf("CONFIG SET maxmemory %d", max(2*used, 2*limit)), "CONFIG REWRITE"},
	}
	if used >= limit {
		f.Severity, f.Found = Error, "the server is out of memory: "+f.Found
	}
	return []Finding{f}
})

// checkPersistence does not require a disk: exclusion does not depend on it. But a server that fails to write to its
// disk accepts no writes at all.
var checkPersistence = byInfo(func(_ *Facts, n *Node, info Info) []Finding {
	switch {
	case info["aof_last_write_status"] == "err":
		return []Finding{{
			Severity: Error, Found: "the last write to the append-only file failed",
			Why: "Until a write succeeds, the server refuses all commands that write, so it gives no locks.",
			Do:  "Look at the server's log and at its disk. It recovers by itself once there is space.",
		}}
	case info["rdb_last_bgsave_status"] == "err":
		return []Finding{checkSnapshot(n)}
	case info["aof_enabled"] == "0":
		return []Finding{{
			Severity: Note, Found: "appendonly is off",
			Why: "Exclusion does not depend on it. With it, a server keeps its limits, and quorumlock init can tell " +
				"a server that was in use from a new one, even if all of them restarted together.",
			Do:       "Leave it, or turn it on, with any appendfsync, in the configuration file too.",
			Commands: []string{"CONFIG SET appendonly yes", "CONFIG REWRITE"},
		}}
	default:
		return nil
	}
})

// checkSnapshot checks a server whose last snapshot failed.
func checkSnapshot(n *Node) Finding {
	f := Finding{
		Severity: Warning, Found: "the last snapshot failed",
		Why: "With stop-writes-on-bgsave-error, the server refuses all writes after that, so it gives no locks.",
		Do: "Look at the server's log and at its disk. A server for locks alone needs no snapshots: turn them off, " +
			"in the configuration file too.",
		Commands: []string{`CONFIG SET save ""`, "CONFIG REWRITE"},
	}
	switch stop := n.Settings["stop-writes-on-bgsave-error"]; {
	case !stop.Known():
		f.Found += "; whether stop-writes-on-bgsave-error is on could not be read: " + stop.Err.Error()
	case stop.Value == "yes":
		f.Severity, f.Found = Error, f.Found+", and stop-writes-on-bgsave-error is on"
	}
	return f
}

func checkLua(_ *Facts, n *Node) []Finding {
	if n.Lua == nil {
		return nil
	}
	switch verdict, err := verdictOf(n.Lua); verdict {
	case Missing:
		return []Finding{{
			Severity: Error, Found: "the server runs no Lua scripts: " + err.Error(),
			Why: "Every operation of the library is a script, which runs as a whole or not at all.",
			Do:  "Remove the rename-command for EVAL or EVALSHA from the configuration file, or any other setting that turns scripts off. Restart the server.",
		}}
	case Permitted: // it ran, and failed
		if strings.Contains(n.Lua.Error(), "replicate_commands") {
			return []Finding{{ // before 7.0 a server can replicate scripts instead of their commands
				Severity: Error, Found: "lua-replicate-commands is no",
				Why:      "Then the server runs no script that reads the time and writes. All scripts that give locks do both.",
				Do:       "Set it to yes, which is the default, in the configuration file too.",
				Commands: []string{"CONFIG SET lua-replicate-commands yes", "CONFIG REWRITE"},
			}}
		}
		return []Finding{{
			Severity: Error, Found: "a script failed: " + n.Lua.Error(),
			Why: "Every operation of the library is a script.",
			Do:  "Use a server that runs scripts as Redis does (guarantees.md, A9).",
		}}
	default:
		return []Finding{unknown(n.Lua, "a script")}
	}
}
