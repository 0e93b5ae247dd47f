package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/admin"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
	"github.com/quorumlock/quorumlock/cmd/internal/watch"
	"github.com/quorumlock/quorumlock/internal/wire"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/node/memory"
)

// closeTimeout bounds the time to close a client. The nodes' timeouts usually end it sooner.
const closeTimeout = 10 * time.Second

// surveyTimeout is how long init, status, top and release wait for one node. No lease depends on that time.
const surveyTimeout = 2 * time.Second

// config returns the configuration of the flags, with the nodes in it.
func (a *app) config(c *cobra.Command) (quorumlock.Config, error) {
	f := a.nodes
	cfg := quorumlock.Config{
		AllowEven:         f.allowEven,
		AllowEviction:     f.evictions,
		AllowUnseenLosses: f.unseen,
		NodeTimeoutMax:    f.nodeTimeout,
		MaxTTL:            f.maxTTL,
		MaxClockSkew:      f.maxClockSkew,
		Recovery:          f.recovery,
		Prefix:            f.namePrefix(c),
		Logger:            a.logger(),
	}
	embedded := c.Flags().Changed("embedded")
	switch {
	case embedded && len(f.addresses) > 0:
		return cfg, wrongFlag(c, "--nodes and --embedded exclude each other")
	case embedded && f.unseen:
		return cfg, wrongFlag(c, "--allow-unseen-losses has no effect here: --embedded nodes lose nothing unnoticed")
	case embedded && f.evictions:
		return cfg, wrongFlag(c, "--allow-eviction has no effect here: --embedded nodes evict nothing")
	case embedded && f.embedded < 1:
		return cfg, wrongFlag(c, "--embedded %d: at least one node is needed", f.embedded)
	case embedded:
		cfg.Nodes = memoryNodes(f.embedded)
		a.say("note: --embedded nodes live in this process and do not exclude other processes")
		return cfg, nil
	}
	cfg.Addresses = f.list()
	if len(cfg.Addresses) == 0 {
		return cfg, wrongFlag(c, "no nodes: give --nodes host:port,... (or set %s), or --embedded N to try without servers", nodesEnv)
	}
	return cfg, nil
}

func memoryNodes(n int) []node.Node {
	nodes := make([]node.Node, n)
	for i := range nodes {
		nodes[i] = memory.New(fmt.Sprintf("embedded-%d", i+1), nil)
	}
	return nodes
}

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
		return wrongUsage(c, errors.New(text.FlagNames.Replace(text.Plain(err))))
	}
	return err
}

// closeClient closes a client and waits for its end. It ignores unconfirmed releases: the locks expire by themselves.
func (a *app) closeClient(ctx context.Context, client *quorumlock.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := client.Close(ctx); err != nil {
		a.logger().Info("close", "err", text.Plain(err))
	}
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
		Prefix: parsed.Prefix, Names: names, MostPermits: watch.MostPermits, Scan: scan,
	})
}

// servers returns the configuration of the flags, and the options of the addresses, for a command that needs servers:
// in-memory nodes mean nothing to it, and why says why not.
func (a *app) servers(c *cobra.Command, why string) (cfg quorumlock.Config, options []node.Options, err error) {
	if c.Flags().Changed("embedded") {
		return cfg, nil, wrongFlag(c, "--embedded has no effect here: %s", why)
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
			return cfg, nil, wrongFlag(c, "address %d: %s", i+1, strings.TrimPrefix(err.Error(), "node: "))
		}
		opt.AllowEviction, opt.AllowUnseenLosses = cfg.AllowEviction, cfg.AllowUnseenLosses
		options, tags = append(options, opt), append(tags, opt.Tag)
	}
	if cfg.Prefix, err = wire.TagPrefix(cfg.Prefix, tags...); err != nil {
		return cfg, nil, wrongFlag(c, "%s", strings.TrimPrefix(err.Error(), "node: "))
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
		if _, _, permit := wire.Permit(name); permit {
			continue
		}
		if _, err := client.RedLock(name).TryAcquire(ctx); errors.Is(err, quorumlock.ErrInvalid) {
			return configProblem(c, err)
		}
	}
	return nil
}
