package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/node"
)

// play runs the chapters. Each one checks what it prints.
func (s *stage) play(ctx context.Context) error {
	s.chapter("Five nodes, one lock, two clients")
	s.tellNodes("five new nodes in this process, independent and just opened; a majority, three, decides. TTL %v", demoTTL)
	held, err := s.takes(ctx)
	if err != nil {
		return err
	}
	waiting, err := s.contends(ctx, held)
	if err != nil {
		return err
	}
	if err := s.losesTwo(ctx, held, waiting); err != nil {
		return err
	}
	next, err := s.handsOver(ctx, held, waiting)
	if err != nil {
		return err
	}
	if err := s.losesThird(ctx, next); err != nil {
		return err
	}
	if err := s.refuses(ctx); err != nil {
		return err
	}
	if err := s.takesBoth(ctx); err != nil {
		return err
	}
	return s.forgets(ctx)
}

// takes: A acquires the lock.
func (s *stage) takes(ctx context.Context) (*quorumlock.Lease, error) {
	began := time.Now()
	lease, err := s.a.RedLock(demoLock).TryAcquire(ctx)
	if err != nil {
		return nil, unexpected("A gets the free lock", err)
	}
	took := time.Since(began)
	if err := s.grows(lease); err != nil {
		return nil, err
	}
	s.a.tells("takes %q in %v, valid for %v unless renewed; its token is %d", demoLock, round(took), round(lease.Remaining()), lease.Token())
	err = eventually(ctx, "all nodes back A's lease", func() bool { return backing(lease) == demoNodes })
	if err != nil {
		return nil, err
	}
	s.a.tells("all %d nodes back the lease", demoNodes)
	return lease, nil
}

// granted is the result of B's wait.
type granted struct {
	lease *quorumlock.Lease
	at    time.Time
	err   error
}

// contends: B learns the holder of the lock, and waits for it.
func (s *stage) contends(ctx context.Context, held *quorumlock.Lease) (<-chan granted, error) {
	_, err := s.b.RedLock(demoLock).TryAcquire(ctx)
	var by *quorumlock.HeldError
	if !errors.As(err, &by) || by.Owner != held.Owner() {
		return nil, unexpected("B is told that A holds the lock", err)
	}
	s.b.tells("is refused: held by %s, which is A, for another %v unless renewed", short(by.Owner), round(by.TTL))
	waiting := s.waits(ctx)
	s.b.tells("waits")
	return waiting, s.renews(ctx, s.a, held)
}

// waits starts B's wait for the lock.
func (s *stage) waits(ctx context.Context) <-chan granted {
	waiting := make(chan granted, 1)
	go func() {
		lease, err := s.b.RedLock(demoLock).Acquire(ctx)
		waiting <- granted{lease, time.Now(), err}
	}()
	return waiting
}

// losesTwo: the lease survives the loss of two nodes.
func (s *stage) losesTwo(ctx context.Context, held *quorumlock.Lease, waiting <-chan granted) error {
	pause(ctx)
	s.chapter("Two nodes die while the lock is held")
	s.stop(4, 5)
	s.tellNodes("their last confirmation counts until its TTL is over")
	for backing(held) > 3 {
		if err := s.renews(ctx, s.a, held); err != nil {
			return err
		}
	}
	if backing(held) != 3 || held.Err() != nil {
		return fmt.Errorf("expected that A's lease lives on with 3 nodes, but %d back it: %w", backing(held), held.Err())
	}
	if err := stillWaits(waiting); err != nil {
		return err
	}
	s.a.tells("still holds %q, B still waits: three of five are enough", demoLock)
	return nil
}

// handsOver: A releases, B acquires.
func (s *stage) handsOver(ctx context.Context, held *quorumlock.Lease, waiting <-chan granted) (*quorumlock.Lease, error) {
	pause(ctx)
	s.chapter("A hands over")
	released := time.Now()
	if err := held.Release(ctx); err != nil {
		return nil, unexpected("A's release is confirmed", err)
	}
	s.a.tells("releases the lock, and %d nodes confirm it", 3)
	got, err := receive(ctx, waiting, "B gets the lock")
	if err != nil {
		return nil, err
	}
	if got.err != nil {
		return nil, unexpected("B gets the lock", got.err)
	}
	s.handOver = got.at.Sub(released)
	if s.handOver <= 0 {
		return nil, errors.New("expected that B gets the lock after A's release, but it had it before")
	}
	if err := s.grows(got.lease); err != nil {
		return nil, err
	}
	s.b.tells("has it %v after A let go, backed by %d of %d nodes; its token is %d, which is larger", round(s.handOver), backing(got.lease), demoNodes, got.lease.Token())
	return got.lease, s.renews(ctx, s.b, got.lease)
}

// losesThird: without a majority, the lease ends before its keys expire.
func (s *stage) losesThird(ctx context.Context, held *quorumlock.Lease) error {
	pause(ctx)
	s.chapter("A third node dies: no majority is left")
	s.stop(3)
	failed, err := receive(ctx, s.b.failed, "B's renewal fails")
	if err != nil {
		return err
	}
	if silent := silentNodes(failed.Err); !slices.Equal(silent, []string{"node-3", "node-4", "node-5"}) {
		return unexpected("B cannot renew for three nodes", failed.Err)
	}
	s.b.tells("cannot renew, as node-3, node-4 and node-5 do not answer, and tries again in the %v that are left", round(failed.Remaining))
	// No renewal moves the end any more: nodes 4 and 5 do not have the lock, and node 3 does not answer.
	until := time.Now().Add(held.Remaining())
	keyGone := make(chan time.Time, 1)
	go func() {
		if eventually(ctx, "the key of node-3 runs out", func() bool { return len(s.nodes[2].Keys()) == 0 }) == nil {
			keyGone <- time.Now()
		}
	}()
	if _, err := receive(ctx, held.Context().Done(), "B's lease ends"); !errors.Is(held.Err(), quorumlock.ErrLost) {
		return unexpected("B's lease is lost", errors.Join(err, held.Err()))
	}
	late := time.Since(until)
	s.b.tells("lost the lease, and its context ended %v after the time: %s", round(late), lossReason(held.Err()))
	gone, err := receive(ctx, keyGone, "the key of node-3 runs out")
	if err != nil {
		return err
	}
	if s.early = gone.Sub(until); s.early <= 0 {
		return fmt.Errorf("expected that the lease ends before the key, but it ended %v after", -s.early)
	}
	s.tellNodes("node-3 kept its key for B %v longer than the lease lasted: the holder knows first", round(s.early))
	if err := held.Release(ctx); !errors.Is(err, quorumlock.ErrLost) {
		return unexpected("a release tells B that the lease was lost", err)
	}
	return nil
}

// refuses: MultiLock needs every node.
func (s *stage) refuses(ctx context.Context) error {
	pause(ctx)
	s.chapter("The nodes come back; MultiLock asks all of them")
	s.start(3, 4)
	began := time.Now()
	if err := s.seen(ctx, 4); err != nil {
		return err
	}
	s.a.tells("noticed it %v later: 4 of %d nodes answer", round(time.Since(began)), demoNodes)
	_, err := s.a.MultiLock("stock", "orders").TryAcquire(ctx)
	if !slices.Equal(silentNodes(err), []string{"node-5"}) || !errors.Is(err, node.ErrUnreachable) {
		return unexpected("MultiLock is refused because of node-5 alone", err)
	}
	s.a.tells(`asks for "stock" and "orders" on every node, and is refused: node-5 is unreachable`)
	if err := s.expectKeys(ctx); err != nil {
		return err
	}
	s.tellNodes("nothing is left of the attempt on any of them")
	return nil
}

// takesBoth: with every node up, A acquires two names at once.
func (s *stage) takesBoth(ctx context.Context) error {
	s.start(5)
	if err := s.seen(ctx, demoNodes); err != nil {
		return err
	}
	began := time.Now()
	lease, err := s.a.MultiLock("stock", "orders").TryAcquire(ctx)
	if err != nil {
		return unexpected("MultiLock gets both names", err)
	}
	took := time.Since(began)
	if err := s.expectKeys(ctx, "orders", "stock"); err != nil {
		return err
	}
	s.a.tells(`takes "stock" and "orders" in one step, in %v, on %d of %d nodes`, round(took), backing(lease), demoNodes)
	if err := lease.Release(ctx); err != nil {
		return unexpected("the release is confirmed", err)
	}
	if err := s.expectKeys(ctx); err != nil {
		return err
	}
	s.a.tells("releases both; no key is left on any node")
	return nil
}

func (s *stage) stop(numbers ...int) {
	for _, n := range numbers {
		s.nodes[n-1].Stop()
	}
	s.stopped += len(numbers)
	s.tellNodes("%s stopped", s.names(numbers))
}

func (s *stage) start(numbers ...int) {
	for _, n := range numbers {
		s.nodes[n-1].Start()
	}
	s.stopped -= len(numbers)
	s.tellNodes("%s started again", s.names(numbers))
}

func (s *stage) names(numbers []int) string {
	var names []string
	for _, n := range numbers {
		names = append(names, s.nodes[n-1].Name())
	}
	return enumerated(names)
}

// renews waits for the next renewal, and prints it.
func (s *stage) renews(ctx context.Context, a *actor, lease *quorumlock.Lease) error {
	e, err := nextRenewal(ctx, a, lease)
	if err != nil {
		return errors.Join(err, lease.Err())
	}
	a.tells("renews: valid for another %v, backed by %s", round(e.Remaining), s.backers(lease))
	return nil
}

// pause gives the reader a moment.
func pause(ctx context.Context) {
	timer := time.NewTimer(demoPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// backers describes how many nodes back a lease, and how many of them cannot have confirmed it just now.
func (s *stage) backers(lease *quorumlock.Lease) string {
	have := backing(lease)
	text := fmt.Sprintf("%d of %d nodes", have, demoNodes)
	if before := have - (demoNodes - s.stopped); before > 0 {
		text += fmt.Sprintf(" (%d by what they confirmed before)", before)
	}
	return text
}

// short returns the part of an owner's id that distinguishes the owners of the demo.
func short(owner string) string {
	if len(owner) < 8 {
		return owner
	}
	return owner[:6] + "…"
}

// lossReason returns why a lease was lost, without the names of the nodes.
func lossReason(err error) string {
	var e *quorumlock.LostError
	if !errors.As(err, &e) {
		return plain(err)
	}
	return e.Reason
}
