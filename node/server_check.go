package node

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// errMisconfiguredServer marks a server whose configuration is unsafe for locks.
var errMisconfiguredServer = errors.New("unfit for locks")

// errReplica marks a server that is a replica, and may become a master again.
var errReplica = errors.New("it is a replica")

// The oldest version that the library supports. Before it, scripts ignore min-replicas-to-write, so a master that
// is cut off goes on granting locks.
const oldestVersion = "6.2.7"

// checkFitness checks the INFO of a server, or its section about replication alone, and returns the server's
// identity. A node that is a slot of a cluster needs a server of a cluster, and any other node needs one that is not. A
// blind server may show less, but nothing that is wrong.
// checkMemory checks the rest of INFO.
func checkFitness(info string, ofCluster, blind bool) (identity string, err error) {
	identity = infoField(info, "master_replid")
	version := infoField(info, "redis_version")
	mode := modeOf(info)
	switch role := infoField(info, "role"); {
	case role == "slave":
		master := infoField(info, "master_host") + ":" + infoField(info, "master_port")
		return "", fmt.Errorf("%w of %s: list the master, or wait if a failover is under way", errReplica, master)
	case identity == "" && !blind:
		return "", errBlind("INFO replication has no master_replid")
	case role != "master" && (role != "" || !blind):
		return "", fmt.Errorf("%w: its role is %q, and only a master can keep locks", errMisconfiguredServer, role)
	case isOlder(version, oldestVersion):
		return "", fmt.Errorf("%w: the server is Redis %s, and %s is the oldest supported version: upgrade it", errMisconfiguredServer, version, oldestVersion)
	case mode == "cluster" && !ofCluster:
		return "", fmt.Errorf("%w: the server is part of a cluster: give the address a tag, so that the node is one slot of it, or set cluster-enabled no", errMisconfiguredServer)
	case mode != "" && mode != "cluster" && ofCluster:
		return "", fmt.Errorf("%w: the address has a tag, and the server is not part of a cluster: remove the tag", errMisconfiguredServer)
	default:
		return identity, nil
	}
}

// modeOf returns the mode of a server, or "" if the text of INFO does not tell it. Redis tells it as redis_mode, Valkey
// as server_mode too, and Redict as redict_mode.
func modeOf(info string) string {
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if strings.HasSuffix(key, "_mode") && slices.Contains([]string{"standalone", "cluster", "sentinel"}, value) {
			return value
		}
	}
	return ""
}

// isOlder reports whether a version comes before another one. A text that is no version is not older.
func isOlder(version, than string) bool {
	parts, limits := strings.Split(version, "."), strings.Split(than, ".")
	for i := range min(len(parts), len(limits)) {
		part, err := strconv.Atoi(parts[i])
		limit, _ := strconv.Atoi(limits[i])
		if err != nil || part != limit {
			return err == nil && part < limit
		}
	}
	return false
}

// infoField returns the value of a field in the text of INFO, or "" if it is absent.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && key == name {
			return value
		}
	}
	return ""
}
