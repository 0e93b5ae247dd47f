package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/internal/watch"
	"github.com/quorumlock/quorumlock/node"
)

// nodesEnv is the default of --nodes. Addresses with passwords belong here: a process list shows the arguments of all
// commands, but not their environment.
const nodesEnv = "QUORUMLOCK_NODES"

// prefixEnv is the default of --prefix. The command of run inherits it.
const prefixEnv = "QUORUMLOCK_PREFIX"

// closeTimeout bounds the time to close a client. The nodes' timeouts usually end it sooner.
const closeTimeout = 10 * time.Second

// surveyTimeout is how long init, status, top and release wait for one node. No lease depends on that time.
const surveyTimeout = 2 * time.Second

// nodeFlags select and describe the nodes.
type nodeFlags struct {
	addresses    []string
	embedded     int
	allowEven    bool
	evictions    bool
	nodeTimeout  time.Duration
	maxTTL       time.Duration
	maxClockSkew time.Duration
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
	flags.DurationVar(&f.nodeTimeout, "node-timeout", 0,
		"how long to wait for one node at most (default a tenth of the TTL, between 100ms and 500ms, and a third of the TTL at most; 2s for init, status, top and release)")
	flags.DurationVar(&f.maxTTL, "max-ttl", quorumlock.DefaultTTL,
		"the largest TTL allowed, which must be the same for all programs that use these nodes")
	flags.DurationVar(&f.maxClockSkew, "max-clock-skew", 0,
		"how far a clock may be ahead of a node's, which must be the same for all programs that use these nodes "+
			"(default 1s, or half of --max-ttl if that is less)")
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

// refuse rejects these flags for commands that use no nodes: a flag without effect would mislead.
func (f *nodeFlags) refuse(c *cobra.Command) error {
	for _, name := range []string{"nodes", "embedded", "allow-even", "allow-eviction", "node-timeout", "max-ttl", "max-clock-skew", "prefix"} {
		if c.Flags().Changed(name) {
			return wrongUsage(c, fmt.Errorf("--%s has no effect here: %s does not use your nodes", name, c.Name()))
		}
	}
	return nil
}

// check refuses invalid times before other values are derived from them.
func (f *nodeFlags) check(c *cobra.Command) error {
	return cmp.Or(
		positive(c, "node-timeout", f.nodeTimeout),
		positive(c, "max-ttl", f.maxTTL),
		positive(c, "max-clock-skew", f.maxClockSkew),
	)
}

// positive refuses a given time that is not positive. A zero would silently mean the default.
func positive(c *cobra.Command, flag string, d time.Duration) error {
	if c.Flags().Changed(flag) && d <= 0 {
		return wrongUsage(c, fmt.Errorf("--%s %v is not positive", flag, d))
	}
	return nil
}

// config returns the configuration of the flags, with the nodes in it.
func (a *app) config(c *cobra.Command) (quorumlock.Config, error) {
	f := a.nodes
	cfg := quorumlock.Config{
		AllowEven:      f.allowEven,
		AllowEviction:  f.evictions,
		NodeTimeoutMax: f.nodeTimeout,
		MaxTTL:         f.maxTTL,
		MaxClockSkew:   f.maxClockSkew,
		Prefix:         f.namePrefix(c),
		Logger:         a.logger(),
	}
	embedded := c.Flags().Changed("embedded")
	switch {
	case embedded && len(f.addresses) > 0:
		return cfg, wrongUsage(c, errors.New("--nodes and --embedded exclude each other"))
	case embedded && f.evictions:
		return cfg, wrongUsage(c, errors.New("--allow-eviction has no effect here: --embedded nodes evict nothing"))
	case embedded && f.embedded < 1:
		return cfg, wrongUsage(c, fmt.Errorf("--embedded %d: at least one node is needed", f.embedded))
	case embedded:
		cfg.Nodes = memoryNodes("embedded", f.embedded)
		a.say("note: --embedded nodes live in this process and do not exclude other processes")
		return cfg, nil
	}
	cfg.Addresses = f.list()
	if len(cfg.Addresses) == 0 {
		return cfg, wrongUsage(c, fmt.Errorf("no nodes: give --nodes host:port,... (or set %s), or --embedded N to try without servers", nodesEnv))
	}
	return cfg, nil
}

// memoryNodes makes n nodes within this process.
func memoryNodes(prefix string, n int) []node.Node {
	nodes := make([]node.Node, n)
	for i := range nodes {
		nodes[i] = node.NewMemory(fmt.Sprintf("%s-%d", prefix, i+1), nil)
	}
	return nodes
}

// watcher makes a watcher of names, for commands that take no lease. It searches scan keys of each node for other locks.
func (a *app) watcher(c *cobra.Command, names []string, scan int) (*watch.Watcher, error) {
	parsed, options, err := a.servers(c, "nodes in memory have no locks of others")
	if err != nil {
		return nil, err
	}
	if err := a.checkNames(c, parsed, names); err != nil {
		return nil, err
	}
	return watch.New(watch.Config{
		Nodes: options, Limits: parsed.Limits(), Patience: cmp.Or(a.nodes.nodeTimeout, surveyTimeout),
		Prefix: parsed.Prefix, Names: names, MostPermits: quorumlock.MaxPermits, Scan: scan,
	})
}

// servers returns the configuration of the flags, and the options of the addresses, for a command that needs servers:
// in-memory nodes mean nothing to it, and why says why not.
func (a *app) servers(c *cobra.Command, why string) (cfg quorumlock.Config, options []node.Options, err error) {
	if c.Flags().Changed("embedded") {
		return cfg, nil, wrongUsage(c, errors.New("--embedded has no effect here: "+why))
	}
	if err = a.nodes.check(c); err != nil {
		return cfg, nil, err
	}
	if cfg, err = a.config(c); err != nil {
		return cfg, nil, err
	}
	var tags []string
	for i, address := range cfg.Addresses {
		opt, err := node.ParseOptions(address)
		if err != nil {
			return cfg, nil, wrongUsage(c, fmt.Errorf("address %d: %s", i+1, strings.TrimPrefix(err.Error(), "node: ")))
		}
		opt.AllowEviction = cfg.AllowEviction
		options, tags = append(options, opt), append(tags, opt.Tag)
	}
	if cfg.Prefix, err = node.TagPrefix(cfg.Prefix, tags...); err != nil {
		return cfg, nil, wrongUsage(c, errors.New(strings.TrimPrefix(err.Error(), "node: ")))
	}
	return cfg, options, nil
}

// checkNames has the library check the nodes and the names: with an ended context, it sends nothing. The names of
// permits are permitted, as top prints them.
func (a *app) checkNames(c *cobra.Command, cfg quorumlock.Config, names []string) error {
	cfg.NodeTimeoutMax = 0 // it need not fit a TTL here
	client, err := newClient(c, cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	defer a.closeClient(ctx, client)
	for _, name := range names {
		if _, _, permit := watch.Permit(name); permit {
			continue
		}
		if _, err := client.RedLock(name).TryAcquire(ctx); errors.Is(err, quorumlock.ErrInvalid) {
			return configProblem(c, err)
		}
	}
	return nil
}

// flagNames are the flags for the library's field names.
var flagNames = strings.NewReplacer("AllowEven", "--allow-even", "MaxTTL", "--max-ttl",
	"MaxClockSkew", "--max-clock-skew", "NodeTimeoutMax", "--node-timeout", "Prefix", "--prefix")

// newClient makes a client. It opens in-memory nodes, which are new. Operators open servers, with init.
func newClient(c *cobra.Command, cfg quorumlock.Config) (*quorumlock.Client, error) {
	client, err := quorumlock.New(cfg)
	if err == nil && len(cfg.Nodes) > 0 {
		_, err = admin.Init(c.Context(), cfg)
	}
	if err != nil {
		return nil, configProblem(c, err)
	}
	return client, nil
}

// configProblem turns an error about the configuration into one about the flags.
func configProblem(c *cobra.Command, err error) error {
	if errors.Is(err, quorumlock.ErrInvalid) {
		return wrongUsage(c, errors.New(flagNames.Replace(plain(err))))
	}
	return err
}

// closeClient closes a client and waits for its end. It ignores unconfirmed releases: the locks expire by themselves.
func (a *app) closeClient(ctx context.Context, client *quorumlock.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := client.Close(ctx); err != nil {
		a.logger().Info("close", "err", plain(err))
	}
}
