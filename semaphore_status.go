package quorumlock

import (
	"cmp"
	"context"
	"slices"

	"github.com/quorumlock/quorumlock/node"
)

// SemaphoreStatus says which owners hold the permits of a semaphore, as its nodes reported it.
type SemaphoreStatus struct {
	// Name is the name of the semaphore.
	Name string
	// Permits is the number of permits.
	Permits int
	// Need is how many nodes must grant a permit.
	Need int
	// Nodes has one entry for each node, in the order of the configuration. The names in its
	// Holders are the keys that the permits' slots have without Config.Prefix.
	Nodes []NodeStatus
}

// PermitHolder is an owner that holds permits on enough nodes.
type PermitHolder struct {
	// Owner is the id of the lease; see [Lease.Owner].
	Owner string
	// Slots are the slot numbers of its permits. They can be beyond the number of permits, if that
	// was reduced since.
	Slots []int
}

// Holders returns all owners that have permits on enough nodes, sorted by owner id.
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

// Available returns how many permits are free on enough of the nodes that answered.
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

// heldSlots returns how many slots may be held. If the number of permits was set, it may have been
// larger before, and the nodes know only the last one.
func (l *Lock) heldSlots(permits int) int {
	if _, version := l.spec.Slots.Size(); version == 0 {
		return permits
	}
	return max(permits, MaxPermits)
}

// Inspect asks every node for the number of permits and their holders. It changes nothing. It takes
// two round trips, and waits for all nodes, each bounded by its timeout. It also finds holders of
// slots beyond a number that [Semaphore.SetPermits] has reduced.
//
// With an error it still returns the answers it has, unless it does not know the number of permits.
// The error is a [*NoQuorumError] if fewer nodes answered than a permit needs, or ctx's error.
func (s *Semaphore) Inspect(ctx context.Context) (*SemaphoreStatus, error) {
	permits, err := s.Permits(ctx)
	if err != nil {
		return nil, err
	}
	l := s.lockFor(1)
	names := make([]string, l.heldSlots(permits))
	for i := range names {
		names[i] = node.SlotName(l.spec.Slots.Pool.Name(), i)
	}
	status, err := l.inspectAll(ctx, node.Op{Kind: node.Inspect, Names: names, Limits: l.client.cfg.limits()})
	if status == nil {
		return nil, err
	}
	for i := range status.Nodes {
		status.Nodes[i].Holders = s.shortSlots(status.Nodes[i].Holders)
	}
	return &SemaphoreStatus{Name: s.name, Permits: permits, Need: status.Need, Nodes: status.Nodes}, err
}

// Available returns how many permits are free now, from [Semaphore.Inspect]. The number may have
// changed by the time it returns.
func (s *Semaphore) Available(ctx context.Context) (int, error) {
	status, err := s.Inspect(ctx)
	if err != nil {
		return 0, err
	}
	return status.Available(), nil
}
