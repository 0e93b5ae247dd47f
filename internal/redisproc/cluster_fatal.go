package redisproc

import (
	"context"
	"testing"
)

// StartCluster is [TryLaunchCluster] for a test. It closes the servers when the test ends.
func StartCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c, err := TryLaunchCluster(context.Background(), opts...)
	if err != nil {
		t.Fatalf("redisproc: %v", err)
	}
	c.fail = func(format string, args ...any) {
		t.Helper()
		t.Fatalf(format, args...)
	}
	for _, b := range c.buses {
		t.Cleanup(b.close)
	}
	for _, s := range c.servers {
		s.adopt(t)
	}
	return c
}

func (c *Cluster) must(err error) {
	if err != nil {
		c.fail("redisproc: %v", err)
	}
}

// Await polls until a condition holds, and fails the test if it never does.
func (c *Cluster) Await(what string, cond func() bool) {
	c.must(c.tryAwait(context.Background(), what, cond))
}

// AwaitHealthy is [Cluster.TryAwaitHealthy], which must not fail.
func (c *Cluster) AwaitHealthy() { c.must(c.TryAwaitHealthy(context.Background())) }

// Slot returns the number of the slot of a key.
func (c *Cluster) Slot(key string) int {
	slot, err := c.slot(context.Background(), key)
	c.must(err)
	return slot
}

// Owner is [Cluster.TryOwner], which must not fail.
func (c *Cluster) Owner(key string) *Server {
	owner, err := c.TryOwner(context.Background(), key)
	c.must(err)
	return owner
}

// ReplicaOf returns a server that follows the master.
func (c *Cluster) ReplicaOf(master *Server) *Server {
	replica, err := c.tryReplicaOf(context.Background(), master)
	c.must(err)
	return replica
}

// OtherMaster is [Cluster.TryOtherMaster], which must not fail.
func (c *Cluster) OtherMaster(key string) *Server {
	other, err := c.TryOtherMaster(context.Background(), key)
	c.must(err)
	return other
}

// Failover is [Cluster.TryFailover], which must not fail.
func (c *Cluster) Failover(key string) *Server {
	replica, err := c.TryFailover(context.Background(), key)
	c.must(err)
	return replica
}

// Move is [Cluster.TryMove], which must not fail.
func (c *Cluster) Move(key string, to *Server, during func(from *Server)) {
	c.must(c.TryMove(context.Background(), key, to, during))
}

// MoveAtOnce is [Cluster.TryMoveAtOnce], which must not fail.
func (c *Cluster) MoveAtOnce(key string, to *Server) (moved bool) {
	moved, err := c.TryMoveAtOnce(context.Background(), key, to)
	c.must(err)
	return moved
}
