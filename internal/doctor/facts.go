package doctor

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/quorumlock/node"
)

// Facts are what was learnt about a set of nodes, and what its programs are configured with.
type Facts struct {
	Nodes []Node
	// The rest is as in [Config].
	AllowEven bool
	Limits    node.Limits
	Timeout   time.Duration
	Names     []string
}

// Fact is something that is known, or is not, and then why.
type Fact[T any] struct {
	Value T
	Err   error
}

// Known reports whether there is a value.
func (f Fact[T]) Known() bool { return f.Err == nil }

// Node is what was learnt about one node.
type Node struct {
	// Name is its address, without a password.
	Name string
	// User is the user of the ACL.
	User string
	// Sentinel is set for a master that is found by Sentinels.
	Sentinel bool
	// Unreached is why nothing of the rest is known; nil if the server answered.
	Unreached error
	// Refused is why the library does not use the server, although it answers.
	Refused error
	// Info is the server's INFO.
	Info Fact[Info]
	// Settings are those that CONFIG GET told.
	Settings map[string]Fact[string]
	// Marker is the library's note on the node; nil if there is none.
	Marker Fact[*Marker]
	// Clock is how far the node's clock is ahead of this machine's.
	Clock Fact[Offset]
	// Trips are round trips, in the order in which they were measured.
	Trips []time.Duration
	// Lua is what a script said that does what those of the library begin with.
	Lua error
	// Trials are the rights that were tried.
	Trials []Trial
}

// Marker is the key in which a node notes that it did not lose its memory.
type Marker struct {
	Identity string
	Limits   node.Limits
	// Left is what is left of the recovery, 0 or less if it is over.
	Left time.Duration
}

// Offset is how far one clock is ahead of another, give or take Error.
type Offset struct {
	Ahead time.Duration
	Error time.Duration
}

// Least is the smallest distance from zero that the offset may have.
func (o Offset) Least() time.Duration { return max(0, o.Ahead.Abs()-o.Error) }

// Info is what INFO says, by field.
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

// number is a field that counts something; 0 where it is not there.
func (i Info) number(field string) int64 {
	n, err := strconv.ParseInt(i[field], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// version is the product and its version.
func (i Info) version() string {
	if v := i["valkey_version"]; v != "" {
		return "valkey " + v
	}
	return "redis " + i["redis_version"]
}

// role is what the server is, in one word.
func (i Info) role() string {
	switch {
	case cmp.Or(i["server_mode"], i["redis_mode"]) == "sentinel": // Valkey, Redis
		return "sentinel"
	case i["role"] == "slave":
		return "replica"
	default:
		return i["role"]
	}
}

// master reports whether what follows from being one matters: of anything else, that is what is
// wrong.
func (i Info) master() bool { return i.role() == "master" }

// Version is the server's product and version; "" if not known.
func (n *Node) Version() string {
	if !n.Info.Known() {
		return ""
	}
	return n.Info.Value.version()
}

// Role is what the server is: master or replica; "" if not known.
func (n *Node) Role() string { return n.Info.Value.role() }

// RoundTrips are how long an answer takes, by median and at worst. It reports false if none was
// measured.
func (n *Node) RoundTrips() (usual, slowest time.Duration, ok bool) {
	if len(n.Trips) == 0 {
		return 0, 0, false
	}
	return slices.Sorted(slices.Values(n.Trips))[len(n.Trips)/2], slices.Max(n.Trips), true
}
