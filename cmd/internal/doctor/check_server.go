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

func (j *judge) version(n *Node) {
	version := n.Info.Value["redis_version"] // forks tell the one that they are compatible with, too
	parsed, err := parseVersion(version)
	switch {
	case err != nil:
		j.unknown(n, nil, "the version %q cannot be read", version)
	case slices.Compare(parsed[:], oldest[:]) < 0:
		j.find(n, Error, "the server is "+n.version(),
			"Before Redis 6.2.7, scripts ignore min-replicas-to-write, so behind Sentinel two clients could hold one lock. The library refuses the server.",
			"Upgrade the server to 6.2.7 or later, one node at a time (docs/on-call.md, \"Restarting nodes that have no disk\").")
	}
}

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

func (j *judge) mode(n *Node) {
	if n.isOutOfPlace() {
		j.find(n, Error, "the server runs as part of a Redis Cluster",
			"A cluster spreads keys over its servers, and a script reaches only the keys of one server. The library refuses the server.",
			"Make the node one slot of the cluster, by a tag in its address (docs/servers.md, \"Redis Cluster\"). Or run an independent server: "+
				"set \"cluster-enabled no\" in its configuration file, and restart it.")
	}
}

// isOutOfPlace reports whether the server is part of a cluster, and the node is not a slot of it.
func (n *Node) isOutOfPlace() bool { return n.Info.Value["cluster_enabled"] == "1" && n.Tag == "" }

func (j *judge) role(n *Node) {
	info := n.Info.Value
	switch role := info["role"]; {
	case n.isReplica():
		master := info["master_host"] + ":" + info["master_port"]
		j.find(n, Error, "the server is a replica of "+master,
			"A replica has a copy of its master's data: it gives no locks, and its vote would not be independent.",
			"List "+master+" instead, unless it is a node already; or make the server independent, if it should be a node of its own.",
			"REPLICAOF NO ONE") // the server then has another identity, and recovers first
	case role != "" && role != "master":
		j.find(n, Error, fmt.Sprintf("the role of the server is %q", role),
			"Only a master decides alone which locks it gives. The library refuses other servers.",
			"Turn off active replication (KeyDB's active-replica and multi-master), or use another server.")
	}
}

// usable reports the library's own reason to refuse a server, if no other check explains it.
func (j *judge) usable(n *Node) {
	switch {
	case n.Refused == nil || n.isExplained():
	case n.Info.Value["loading"] == "1" || strings.Contains(n.Refused.Error(), "LOADING"):
		j.find(n, Warning, "the server is loading its data from disk", "Until it is done, it answers no command.", "Wait, and look again.")
	default:
		j.find(n, Error, "the library does not use the server: "+n.Refused.Error(),
			"A node that is not used has no vote.", "See the table of errors in docs/handbook.md.")
	}
}

// isExplained reports whether another check says why the library refuses the server.
func (n *Node) isExplained() bool {
	info := n.Info.Value
	version, err := parseVersion(info["redis_version"])
	return !n.Info.Known() || evictionOf(info) != "" || n.isOutOfPlace() || info["role"] != "master" ||
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
var noEviction = []string{"CONFIG SET maxmemory-policy noeviction", rewrite}

// rewrite saves changed settings.
const rewrite = "CONFIG REWRITE"

func (j *judge) eviction(n *Node) {
	info := n.Info.Value
	switch settings := evictionOf(info); {
	case info["maxmemory_policy"] == "":
		j.unknown(n, nil, "INFO does not show the maxmemory-policy")
	case settings != "" && n.AllowEviction:
		j.find(n, Warning, settings+", which --allow-eviction permits",
			"A lock that is evicted is an unnoticed loss of memory: two clients could hold it. The library uses the server all the same.",
			"Use these locks only to save work, never to protect data. Otherwise set the policy to noeviction, and take --allow-eviction away.", noEviction...)
	case settings != "":
		j.find(n, Error, settings,
			"A lock that is evicted is an unnoticed loss of memory: two clients could hold it. So the library refuses the server.",
			"Set the policy to noeviction, in the configuration file too (CONFIG REWRITE does that, if there is one). "+
				"If the server also serves as a cache, run another one for locks. If locks only save work, programs may set AllowEviction.", noEviction...)
	case info.number("evicted_keys") > 0:
		j.find(n, Warning, fmt.Sprintf("%d keys were evicted since the server started", info.number("evicted_keys")),
			"Locks may have been among them, unnoticed. The present settings evict nothing.",
			"Nothing, if that was longer ago than the MaxTTL. CONFIG RESETSTAT resets the count.")
	case info["maxmemory_policy"] != "noeviction":
		j.find(n, Note, "maxmemory-policy is "+info["maxmemory_policy"]+", without effect as maxmemory is 0",
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
	case info["aof_enabled"] == "0":
		j.find(n, Note, "appendonly is off",
			"Exclusion does not depend on it. With it, a server keeps its limits, and quorumlock init can tell "+
				"a server that was in use from a new one, even if all of them restarted together.",
			"Leave it, or turn it on, with any appendfsync, in the configuration file too.", "CONFIG SET appendonly yes", rewrite)
	}
}

// snapshot judges a server whose last snapshot failed.
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

func (j *judge) lua(n *Node) {
	if n.Lua == nil {
		return
	}
	switch verdict, err := verdictOf(n.Lua); {
	case verdict == Missing:
		j.find(n, Error, "the server runs no Lua scripts: "+err.Error(),
			"Every operation of the library is a script, which runs as a whole or not at all.",
			"Remove the rename-command for EVAL or EVALSHA from the configuration file, or any other setting that turns scripts off. Restart the server.")
	case verdict != Permitted:
		j.unknown(n, n.Lua, "a script")
	case strings.Contains(n.Lua.Error(), "replicate_commands"): // it ran, and failed: before 7.0 a server can replicate scripts themselves
		j.find(n, Error, "lua-replicate-commands is no",
			"Then the server runs no script that reads the time and writes. All scripts that give locks do both.",
			"Set it to yes, which is the default, in the configuration file too.", "CONFIG SET lua-replicate-commands yes", rewrite)
	default:
		j.find(n, Error, "a script failed: "+n.Lua.Error(), "Every operation of the library is a script.",
			"Use a server that runs scripts as Redis does (guarantees.md, A9).")
	}
}
