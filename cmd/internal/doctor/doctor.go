// Package doctor examines a set of nodes, and reports problems and remedies.
//
// It has three parts, and each uses only the one before. [Examine] collects [Facts] of all nodes, and changes nothing on
// them. [Facts.Report] turns facts into findings, by a table of checks that ask nobody. [Print] and [PrintJSON] put them
// into words. An unknown fact makes a finding of its own, and never an OK.
package doctor

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
)

// Config says what to examine, and how the programs that use the nodes are configured.
type Config struct {
	// Nodes are the options of the programs' connections to the nodes.
	Nodes []node.Options
	// AllowEven is the programs' setting.
	AllowEven bool
	// Limits are the programs' limits.
	Limits node.Limits
	// Timeout is the longest time that the programs wait for one node (NodeTimeoutMax).
	Timeout time.Duration
	// Names are names of locks, for which the user's rights are checked.
	Names []string
	// Prefix begins the names of the programs' locks.
	Prefix string
	// Patience is the timeout of one answer here.
	Patience time.Duration
}

// Facts are the facts about a set of nodes.
type Facts struct {
	// Config has the configuration of the programs.
	Config
	Nodes []Node
}

// Fact is a known value, or the reason why it is unknown.
type Fact[T any] struct {
	Value T
	Err   error
}

// Known reports whether the fact is known.
func (f Fact[T]) Known() bool { return f.Err == nil }

// Node is the facts about one node.
type Node struct {
	// Name is the node's address, without a password.
	Name string
	// User is the user of the ACL.
	User string
	// Sentinel is set for a master whose address came from Sentinels.
	Sentinel bool
	// Tag is the hash tag of a node that is a slot of a Redis Cluster, or "".
	Tag string
	// AllowEviction is the setting of the programs' node.Options.
	AllowEviction bool
	// Unseen is why the server cannot tell that it has lost its memory, if the programs' node.Options accept that.
	Unseen string
	// Unreached is why the other facts are unknown; nil if the server answered.
	Unreached error
	// Refused is why the library does not use the server, although it answers.
	Refused error
	// Info is the server's INFO.
	Info Fact[Info]
	// Settings are the results of CONFIG GET.
	Settings map[string]Fact[string]
	// Marker is the node's marker; nil if there is none.
	Marker Fact[*Marker]
	// Lists has the id of the node, and the lists of nodes in use that it knows.
	Lists Fact[*wire.ListReply]
	// Fences is the error of a look at the fencing tokens that the node remembers, or nil.
	Fences error
	// Clock is the offset of the node's clock ahead of this machine's.
	Clock Fact[Offset]
	// Trips are round trips, in the order in which they were measured.
	Trips []time.Duration
	// Trials are the rights that were tested.
	Trials []Trial
}

// Trial is a right, and whether the user has it.
type Trial struct {
	// Rule is the ACL rule that grants the right.
	Rule string
	// For is the purpose of the right.
	For string
	// Verdict is the result.
	Verdict Verdict
	// Err is the server's error, unless the user has the right.
	Err error
}

// Verdict is the result of testing a right.
type Verdict int

// The verdicts.
const (
	Untried Verdict = iota
	Permitted
	Denied
	// Missing is for a command that the server does not know: the server is older, or the command was renamed.
	Missing
)

// Marker is the key that shows that a node has not lost its memory.
type Marker struct {
	Identity string
	// Left is the time until the recovery ends, 0 or less if it is over.
	Left time.Duration
}

// Offset is how far one clock is ahead of another, plus or minus Error.
type Offset struct {
	Ahead time.Duration
	Error time.Duration
}

// Least is the smallest distance from zero that the offset can have.
func (o Offset) Least() time.Duration { return max(0, o.Ahead.Abs()-o.Error) }

// Info has the fields of INFO.
type Info map[string]string

func parseInfo(text string) Info {
	info := make(Info)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(key, "#") {
			info[key] = value
		}
	}
	return info
}

// number returns a numeric field; 0 if it is missing.
func (i Info) number(field string) int64 {
	n, err := strconv.ParseInt(i[field], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (i Info) version() string {
	for _, fork := range []string{"valkey", "redict"} {
		if v := i[fork+"_version"]; v != "" {
			return fork + " " + v
		}
	}
	if _, ok := i["mvcc_depth"]; ok { // KeyDB tells its name nowhere else
		return "keydb " + i["redis_version"]
	}
	return "redis " + i["redis_version"]
}

func (i Info) role() string {
	switch {
	case cmp.Or(i["server_mode"], i["redis_mode"], i["redict_mode"]) == "sentinel": // Valkey, Redis, Redict
		return "sentinel"
	case i["role"] == "slave":
		return "replica"
	default:
		return i["role"]
	}
}

// version returns the server's product and version; "" if unknown.
func (n *Node) version() string {
	if !n.Info.Known() {
		return ""
	}
	return n.Info.Value.version()
}

// isReplica is false if the role is unknown.
func (n *Node) isReplica() bool { return n.Info.Value.role() == "replica" }

// roundTrips returns the median and the longest round trip. It reports false if none was measured.
func (n *Node) roundTrips() (usual, slowest time.Duration, ok bool) {
	if len(n.Trips) == 0 {
		return 0, 0, false
	}
	return slices.Sorted(slices.Values(n.Trips))[len(n.Trips)/2], slices.Max(n.Trips), true
}
