package quorumlock

import (
	"cmp"
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/node"
)

// SemaphoreStatus is who holds the permits of a semaphore, as its nodes see it at one time.
type SemaphoreStatus struct {
	// Name is that of the semaphore.
	Name string
	// Permits is how many there are.
	Permits int
	// Need is how many nodes have to grant a permit.
	Need int
	// Nodes has one entry for each node, in the order of the configuration. The names of
	// holders are the keys of the permits' slots.
	Nodes []NodeStatus
}

// PermitHolder is who holds permits on enough nodes.
type PermitHolder struct {
	// Owner is the id of the lease; see [Lease.Owner].
	Owner string
	// Slots are the numbers of its permits.
	Slots []int
}

// Holders are all who have permits on enough nodes, by their owner ids.
func (s *SemaphoreStatus) Holders() []PermitHolder {
	pool := node.PoolName(s.Name)
	slots := make(map[string][]int)
	type claim struct {
		owner string
		slot  int
	}
	nodes := make(map[claim]int)
	for _, n := range s.Nodes {
		for _, h := range n.Holders {
			c := claim{h.Owner, node.SlotOf(pool, h.Name)}
			if nodes[c]++; nodes[c] == s.Need {
				slots[c.owner] = append(slots[c.owner], c.slot)
			}
		}
	}
	holders := make([]PermitHolder, 0, len(slots))
	for owner, numbers := range slots {
		slices.Sort(numbers)
		holders = append(holders, PermitHolder{Owner: owner, Slots: numbers})
	}
	slices.SortFunc(holders, func(a, b PermitHolder) int { return cmp.Compare(a.Owner, b.Owner) })
	return holders
}

// Available is how many permits are free on enough of the nodes that answered.
func (s *SemaphoreStatus) Available() (n int) {
	pool := node.PoolName(s.Name)
	held := make([]int, s.Permits)
	answered := 0
	for _, nd := range s.Nodes {
		if nd.Err != nil {
			continue
		}
		answered++
		for _, h := range nd.Holders {
			if i := node.SlotOf(pool, h.Name); i >= 0 && i < len(held) {
				held[i]++
			}
		}
	}
	for _, nodes := range held {
		if answered-nodes >= s.Need {
			n++
		}
	}
	return n
}

// Inspect asks every node how many permits there are, and who holds them. It takes two round
// trips, waits for all nodes, each bounded by its timeout, and changes nothing. It returns what
// it learnt also with an error: a [*NoQuorumError] if fewer nodes answered than have to grant a
// permit, or ctx's error; and nothing if that happened before it knew how many permits there
// are.
func (s *Semaphore) Inspect(ctx context.Context) (*SemaphoreStatus, error) {
	permits, err := s.Permits(ctx)
	if err != nil {
		return nil, err
	}
	l := s.of(1)
	names := make([]string, permits)
	for i := range names {
		names[i] = node.SlotName(l.slots.Pool.Name(), i)
	}
	status, err := l.survey(ctx, node.Op{Kind: node.Inspect, Names: names, Limits: l.client.cfg.limits()})
	if status == nil {
		return nil, err
	}
	return &SemaphoreStatus{Name: s.name, Permits: permits, Need: status.Need, Nodes: status.Nodes}, err
}

// Available is how many permits are free now, as [Semaphore.Inspect] finds out. By the time that
// it returns, that may have changed.
func (s *Semaphore) Available(ctx context.Context) (int, error) {
	status, err := s.Inspect(ctx)
	if err != nil {
		return 0, err
	}
	return status.Available(), nil
}
