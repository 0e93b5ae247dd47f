package node

import (
	"errors"
	"fmt"
	"strings"
)

// errMisconfiguredServer marks a server that must not be used as it is set up.
var errMisconfiguredServer = errors.New("unfit for locks")

// errReplica is about a server that may be a master again.
var errReplica = errors.New("it is a replica")

// checkFitness looks at what a server says of itself, and finds its identity. An
// eviction policy other than noeviction is refused whether there is a limit or not: that
// can be set at any time, and a lock that was evicted is a loss of memory that nobody
// notices.
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

// infoField finds a field in what INFO says, and is empty if there is none.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && key == name {
			return value
		}
	}
	return ""
}
