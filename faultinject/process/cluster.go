package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/quorumlock/faultinject"
	"github.com/quorumlock/quorumlock/faultinject/internal/control"
	"github.com/quorumlock/quorumlock/internal/redisproc"
	"github.com/quorumlock/quorumlock/internal/wire"
)

const slotTag = "ql"

// nodeTimeout is the cluster-node-timeout. MaxClockSkew must not be less: see docs/servers.md.
const nodeTimeout = time.Second

// clusterDriver is one slot of a Redis Cluster of processes. The owner of the slot has the faults. They end when the
// cluster is healthy again.
type clusterDriver struct {
	cluster *redisproc.Cluster
	// broken is the server that is stopped, paused or isolated, if any.
	broken *redisproc.Server
}

// StartWithCluster is [Start] for n nodes of which the first is a slot of a Redis Cluster, a [faultinject.Shard]. The
// cluster has three masters, each with a replica. None of its servers has a disk. They suit a MaxClockSkew of a second
// or more.
func StartWithCluster(ctx context.Context, n int) (*faultinject.Group, error) {
	return faultinject.StartGroup(n, func(name string) (faultinject.Server, error) {
		if name == "n1" {
			return startCluster(ctx, name)
		}
		return start(ctx, name)
	})
}

func startCluster(ctx context.Context, name string) (faultinject.Server, error) {
	cluster, err := redisproc.TryLaunchCluster(ctx, redisproc.WithNodeTimeout(nodeTimeout))
	if err != nil {
		return nil, control.Failed("cluster", name, "start", err)
	}
	return control.NewShard("cluster", name, &clusterDriver{cluster: cluster})
}

func (d *clusterDriver) Tag() string { return slotTag }

func (d *clusterDriver) Addresses() []string { return d.cluster.Addresses() }

var marker = wire.MarkerKey(slotTag)

func (d *clusterDriver) owner(ctx context.Context) (owner *redisproc.Server, err error) {
	err = d.cluster.Try(ctx, func(c *redisproc.Cluster) { owner = c.Owner(marker) }) //nolint:contextcheck // Try bounds the steps by ctx
	return owner, err
}

func (d *clusterDriver) Command(ctx context.Context, args ...string) (string, error) {
	owner, err := d.owner(ctx)
	if err != nil {
		return "", err
	}
	return owner.Do(ctx, args...)
}

func (d *clusterDriver) breaks(ctx context.Context, apply func(*redisproc.Server) error) error {
	if d.broken != nil {
		return fmt.Errorf("the server %s already has a fault", d.broken.Addr())
	}
	owner, err := d.owner(ctx)
	if err != nil {
		return err
	}
	d.broken = owner
	return apply(owner)
}

func (d *clusterDriver) mends(ctx context.Context, repair func(*redisproc.Server) error) error {
	if d.broken == nil {
		return nil
	}
	if err := repair(d.broken); err != nil {
		return err
	}
	d.broken = nil
	return d.change(ctx, func(*redisproc.Cluster) {})
}

func (d *clusterDriver) Kill(ctx context.Context) error {
	return d.breaks(ctx, func(s *redisproc.Server) error { s.Kill(); return nil })
}

func (d *clusterDriver) Stop(ctx context.Context) error {
	return d.breaks(ctx, func(s *redisproc.Server) error { return s.TryStop(ctx) })
}

func (d *clusterDriver) Start(ctx context.Context) error {
	return d.mends(ctx, func(s *redisproc.Server) error { return s.TryStart(ctx) })
}

func (d *clusterDriver) Wipe(context.Context) error { return nil }

func (d *clusterDriver) Pause(ctx context.Context) error {
	return d.breaks(ctx, (*redisproc.Server).TryPause)
}

func (d *clusterDriver) Resume(ctx context.Context) error {
	return d.mends(ctx, (*redisproc.Server).TryResume)
}

func (d *clusterDriver) Isolate(ctx context.Context) error {
	return d.breaks(ctx, func(s *redisproc.Server) error { d.cluster.CutOff(s); return nil })
}

func (d *clusterDriver) Rejoin(ctx context.Context) error {
	return d.mends(ctx, func(s *redisproc.Server) error { d.cluster.Rejoin(s); return nil })
}

func (d *clusterDriver) Failover(ctx context.Context) error {
	return d.change(ctx, func(c *redisproc.Cluster) { c.Failover(marker) })
}

func (d *clusterDriver) Move(ctx context.Context) error {
	return d.change(ctx, func(c *redisproc.Cluster) { c.Move(marker, c.OtherMaster(marker), nil) })
}

// change makes a change, and waits until the cluster is healthy in any case.
func (d *clusterDriver) change(ctx context.Context, steps func(*redisproc.Cluster)) error {
	return errors.Join(d.cluster.Try(ctx, steps), d.cluster.Try(ctx, (*redisproc.Cluster).AwaitHealthy))
}

func (d *clusterDriver) StepClock(context.Context, time.Duration) error {
	return fmt.Errorf("%w: the servers of a cluster have the true clock", errors.ErrUnsupported)
}

func (d *clusterDriver) SetMaxMemory(ctx context.Context, limit int64) error {
	var errs []error
	for _, s := range d.cluster.Servers() {
		errs = append(errs, s.TrySetMaxMemory(ctx, limit))
	}
	return errors.Join(errs...)
}

func (d *clusterDriver) Close() error { return d.cluster.TryClose() }
