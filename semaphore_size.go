package quorumlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/quorumlock/node"
	"github.com/quorumlock/quorumlock/quorum"
)

// maxSizeAttempts bounds how often SetPermits tries again after a concurrent call.
const maxSizeAttempts = 5

// SetPermits sets how many permits the semaphore has, from 1 to MaxPermits, until it is set again.
// The number counts for all programs, whatever number they were configured with. Of several
// concurrent calls, the last one counts.
//
// After it returns nil, only acquisitions that were already running may get permits beyond that
// number. It takes no permit away: if the number shrinks, holders keep their permits until they
// release them. If it grows, waiters get the new permits at once.
//
// The nodes keep the number in memory, as they keep locks, and without a TTL. It counts as long as
// the nodes that do not know it are fewer than a quorum. A node that lost it, or was down, learns it
// from the next client that knows it and acquires a permit there. If too few nodes know it, each
// program uses its configured number again.
//
// A [*NoQuorumError] means that too few nodes have taken the number. It may count or not, and
// repeating the call is harmless. The same holds for the error of a context that ends meanwhile, and
// for ErrClosed.
func (s *Semaphore) SetPermits(ctx context.Context, permits int) error {
	l := s.lockFor(1)
	if permits < 1 || permits > MaxPermits {
		return invalid(fmt.Sprintf("a semaphore has from 1 to %d permits, not %d", MaxPermits, permits))
	}
	if err := l.beginInspect(ctx); err != nil {
		return err
	}
	defer l.client.endCall()
	_, seen := l.spec.Slots.Size()
	var last *sizeRound
	for range maxSizeAttempts {
		version := quorum.NextToken(l.client.engine.Tokens.Now(), seen)
		r, err := l.askSize(ctx, node.Pool{Name: l.spec.Slots.Pool.Name(), Size: permits, Version: version})
		if err != nil {
			return err
		}
		if r.tally.Result() == quorum.Won {
			l.spec.Slots.Pool.SetSize(permits, version)
			return nil
		}
		if r.latest.Version <= seen {
			return r.short
		}
		seen, last = r.latest.Version, r
	}
	return last.overtaken(l.client)
}

// errOtherSize is why a node did not take a number of permits.
var errOtherSize = errors.New("another call has set the number of permits meanwhile")

// overtaken is the error of a round that was lost to a later setting.
func (r *sizeRound) overtaken(c *Client) error {
	r.short.Agreed = r.tally.Granted()
	for i := range r.tally.Nodes() {
		if r.tally.Vote(i) == quorum.Denied {
			name := c.nodes.Name(i)
			r.short.Nodes = append(r.short.Nodes, NodeError{name, &node.Error{Node: name, Op: node.Resize, Reason: node.ErrRejected, Err: errOtherSize}})
		}
	}
	return r.short
}

// Permits returns how many permits there are, as the nodes know it: the number that was set last,
// or this semaphore's configured number if none was. It fails as [Lock.Inspect] does.
func (s *Semaphore) Permits(ctx context.Context) (int, error) {
	l := s.lockFor(1)
	if err := l.beginInspect(ctx); err != nil {
		return 0, err
	}
	defer l.client.endCall()
	r, err := l.askSize(ctx, node.Pool{Name: l.spec.Slots.Pool.Name()})
	if err != nil {
		return 0, err
	}
	if r.tally.Unknown() > r.tally.Nodes()-l.spec.Need {
		return 0, r.short
	}
	l.spec.Slots.Pool.LearnSize(r.latest.Size, r.latest.Version)
	size, _ := l.spec.Slots.Size()
	return size, nil
}

// sizeRound has the answers of the nodes to a new size.
type sizeRound struct {
	tally quorum.Tally
	// latest is the latest setting that a node reported.
	latest node.PoolState
	// short is the error if too few nodes agreed.
	short *NoQuorumError
}

// askSize sends a size to all nodes, and waits for their answers.
func (l *Lock) askSize(ctx context.Context, p node.Pool) (*sizeRound, error) {
	replies, err := l.askAll(ctx, node.Op{Kind: node.Resize, Names: []string{p.Name}, Pool: p, Limits: l.client.cfg.limits()})
	if err != nil {
		return nil, err
	}
	r := &sizeRound{tally: quorum.NewTally(len(replies), l.spec.Need), short: l.noQuorumError(node.Resize, replies)}
	for i, reply := range replies {
		switch reply.Outcome {
		case node.Granted:
			r.tally.Record(i, quorum.Granted)
		case node.Denied:
			r.tally.Record(i, quorum.Denied)
			if reply.Pool.Version > r.latest.Version {
				r.latest = reply.Pool
			}
		default:
			r.tally.Record(i, quorum.Unknown)
		}
	}
	return r, nil
}
