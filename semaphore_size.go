package quorumlock

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/quorumlock/quorumlock/internal/dispatch"
	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// SetPermits sets how many permits the semaphore has, from 1 to MaxPermits, for all programs
// and whatever they were configured with, until it is set again. Of several who set it at the
// same time, the last one counts.
//
// Once it returns nil, no permit is granted any more beyond that number, but to acquisitions
// that were under way. It takes no permit from anybody: where there are fewer now, those who
// hold too many keep them until they release them. Where there are more, waiters get them at
// once.
//
// The nodes keep the number as they keep locks, in memory, and without a TTL. It counts as long
// as so many of them know it that the others are no quorum; those that have lost it, or were
// down, learn it again from the first who knows it and is granted a permit there. Below that,
// each program goes back to what it was configured with. A [*NoQuorumError] says that too few
// nodes have taken it; it may count or not, and to repeat it does no harm.
func (s *Semaphore) SetPermits(ctx context.Context, permits int) error {
	l := s.of(1)
	if permits < 1 || permits > MaxPermits {
		return &InvalidError{Problems: []string{fmt.Sprintf("a semaphore has from 1 to %d permits, not %d", MaxPermits, permits)}}
	}
	if err := l.mayAsk(ctx); err != nil {
		return err
	}
	defer l.client.leave()
	_, seen := l.slots.Size()
	for range maxTries {
		version := quorum.NextToken(l.client.tokens.now(), seen)
		r, err := l.resizing(ctx, node.Pool{Name: l.slots.Pool.Name(), Size: permits, Version: version})
		if err != nil {
			return err
		}
		if r.tally.Result() == quorum.Won {
			l.slots.Pool.LearnSize(permits, version)
			return nil
		}
		if r.latest.Version <= seen {
			return r.failure()
		}
		seen = r.latest.Version
	}
	return &NoQuorumError{Op: node.Resize.String(), Names: l.Names(), Need: l.need, Total: l.client.nodes.Len()}
}

// Permits is how many permits there are by what the nodes know: the number that was set last, or
// the one that this semaphore was made with if none was. It fails as [Lock.Inspect] does.
func (s *Semaphore) Permits(ctx context.Context) (int, error) {
	l := s.of(1)
	if err := l.mayAsk(ctx); err != nil {
		return 0, err
	}
	defer l.client.leave()
	r, err := l.resizing(ctx, node.Pool{Name: l.slots.Pool.Name()})
	if err != nil {
		return 0, err
	}
	if r.tally.Unknown() > r.tally.Nodes()-l.need {
		return 0, r.failure()
	}
	l.slots.Pool.LearnSize(r.latest.Size, r.latest.Version)
	size, _ := l.slots.Size()
	return size, nil
}

// mayAsk says what is wrong with a call before anything is sent, and registers it if there is
// nothing: leave ends it.
func (l *Lock) mayAsk(ctx context.Context) error {
	if err := l.check(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return whyDone(ctx)
	}
	return l.client.enter()
}

// resizing gathers what every node says to a size.
type resizing struct {
	lock *Lock
	done chan struct{}

	mu    sync.Mutex
	tally quorum.Tally
	// latest is the latest setting that any has told.
	latest node.PoolState
	errs   []NodeError
}

// resizing sends a size to all nodes and waits for their answers.
func (l *Lock) resizing(ctx context.Context, p node.Pool) (*resizing, error) {
	r := &resizing{lock: l, done: make(chan struct{}), tally: quorum.NewTally(l.client.nodes.Len(), l.need)}
	v := dispatch.NewCalls(l.client.nodes.Len(), node.Op{Kind: node.Resize, Names: []string{p.Name}, Pool: p, Limits: l.client.cfg.limits()})
	for i := range l.client.nodes.Len() {
		c := v.To(i)
		c.To, c.Urgent = r, true
		if err := l.client.nodes.Submit(i, c); err != nil {
			r.Answer(c, &node.Reply{Err: err, Unsent: true})
		}
	}
	select {
	case <-r.done:
		return r, nil
	case <-ctx.Done():
		return nil, whyDone(ctx)
	case <-l.client.quit:
		return nil, ErrClosed
	}
}

// answer is what one node says.
func (r *resizing) Answer(c *dispatch.Call, reply *node.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch reply.Outcome {
	case node.Granted:
		r.tally.Record(c.Node(), quorum.Granted)
	case node.Denied:
		r.tally.Record(c.Node(), quorum.Denied)
		if reply.Pool.Version > r.latest.Version {
			r.latest = reply.Pool
		}
	default:
		r.tally.Record(c.Node(), quorum.Unknown)
		r.errs = append(r.errs, NodeError{Node: r.lock.client.nodes.Name(c.Node()), Err: reply.Err})
	}
	if r.tally.Missing() == 0 {
		close(r.done)
	}
}

// failure says why too few nodes have agreed.
func (r *resizing) failure() error {
	return &NoQuorumError{
		Op: node.Resize.String(), Names: r.lock.Names(), Need: r.tally.Need(), Agreed: r.tally.Granted() + r.tally.Denied(),
		Total: r.tally.Nodes(), Nodes: slices.Clone(r.errs),
	}
}
