package main

import (
	"cmp"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock"
)

// nodesEnv is the default of --nodes. Addresses with passwords belong here: a process list shows the arguments of all
// commands, but not their environment.
const nodesEnv = "QUORUMLOCK_NODES"

// prefixEnv is the default of --prefix. The command of run inherits it.
const prefixEnv = "QUORUMLOCK_PREFIX"

type nodeFlags struct {
	addresses    []string
	embedded     int
	allowEven    bool
	evictions    bool
	unseen       bool
	nodeTimeout  time.Duration
	maxTTL       time.Duration
	maxClockSkew time.Duration
	recovery     time.Duration
	prefix       string
}

func (f *nodeFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.addresses, "nodes", nil,
		"the `nodes`, separated by commas or in several flags: host:port, redis://, rediss:// or unix:// "+
			"(default: $"+nodesEnv+", the place for addresses with passwords; a comma in one is %2C)")
	flags.IntVar(&f.embedded, "embedded", 0,
		"use `N` in-memory nodes instead of servers, to try things out: they live in this process only, and do not exclude other processes")
	flags.BoolVar(&f.allowEven, "allow-even", false, "permit an even number of nodes")
	flags.BoolVar(&f.evictions, "allow-eviction", false,
		"accept servers that may evict locks (a maxmemory, and a maxmemory-policy other than noeviction): for locks that only save work, "+
			"since two owners can then hold one lock")
	flags.BoolVar(&f.unseen, "allow-unseen-losses", false,
		"accept servers that cannot tell that they have restarted or failed over (INFO is refused in scripts): for locks that only save work, "+
			"since two owners can then hold one lock")
	flags.DurationVar(&f.nodeTimeout, "node-timeout", 0,
		"how long to wait for one node at most (default a tenth of the TTL, between 100ms and 500ms, and a third of the TTL at most; 2s for init, status, top and release)")
	flags.DurationVar(&f.maxTTL, "max-ttl", quorumlock.DefaultTTL,
		"the largest TTL allowed")
	flags.DurationVar(&f.maxClockSkew, "max-clock-skew", 0,
		"how far a clock may be ahead of a node's (default 1s, or half of --max-ttl if that is less)")
	flags.DurationVar(&f.recovery, "recovery", 0,
		"how long a node that lost its memory gives no new locks: at least the largest --max-ttl plus the largest --max-clock-skew of all programs "+
			"with these nodes and names (default the sum of both)")
	flags.StringVar(&f.prefix, "prefix", "",
		"the `prefix` that an application puts before each name, as in billing: (default: $"+prefixEnv+"): "+
			"names are given and shown without it, and top finds only names that have it")
}

// namePrefix returns the prefix of names, from the flag or else from the environment.
func (f *nodeFlags) namePrefix(c *cobra.Command) string {
	if c.Flags().Changed("prefix") {
		return f.prefix
	}
	return os.Getenv(prefixEnv)
}

// list returns the nodes' addresses, from the flag or else from the environment.
func (f *nodeFlags) list() []string {
	given := f.addresses
	if len(given) == 0 && os.Getenv(nodesEnv) != "" {
		given = []string{os.Getenv(nodesEnv)}
	}
	var addresses []string
	for _, list := range given {
		for address := range strings.SplitSeq(list, ",") {
			addresses = append(addresses, strings.TrimSpace(address))
		}
	}
	return addresses
}

// check refuses invalid times before other values are derived from them.
func (f *nodeFlags) check(c *cobra.Command) error {
	return cmp.Or(
		positive(c, "node-timeout", f.nodeTimeout),
		positive(c, "max-ttl", f.maxTTL),
		positive(c, "max-clock-skew", f.maxClockSkew),
		positive(c, "recovery", f.recovery),
	)
}
