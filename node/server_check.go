package node

import (
	"errors"
	"fmt"
	"strings"
)

// errMisconfiguredServer marks a server whose configuration is unsafe for locks.
var errMisconfiguredServer = errors.New("unfit for locks")

// errReplica marks a server that is a replica, and may become a master again.
var errReplica = errors.New("it is a replica")

// checkFitness checks the INFO of a server, and returns its identity. It refuses an eviction policy other
// than noeviction even without a memory limit: the limit can be set at any time, and an evicted lock is a
// loss of memory that goes unnoticed.
func checkFitness(replication, memory string) (identity string, err error) {
	identity = infoField(replication, "master_replid")
	policy := infoField(memory, "maxmemory_policy")
	switch {
	case infoField(replication, "role") == "slave":
		master := infoField(replication, "master_host") + ":" + infoField(replication, "master_port")
		return "", fmt.Errorf("%w of %s: list that instead, or wait if a failover is under way", errReplica, master)
	case identity == "":
		return "", fmt.Errorf("%w: INFO replication has no master_replid, by which a restart is noticed", errMisconfiguredServer)
	case policy != "" && policy != "noeviction":
		return "", fmt.Errorf("%w: maxmemory-policy is %s, so the server may evict locks: set it to noeviction", errMisconfiguredServer, policy)
	default:
		return identity, nil
	}
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
