package demo

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/cmd/internal/text"
)

// chapters are the demo. Each step checks its own claim.
var chapters = []struct {
	title string
	steps []func(*stage)
}{
	{"Five nodes, one lock, two clients", []func(*stage){(*stage).introduce, (*stage).takes, (*stage).isRefused, (*stage).waits, (*stage).renews}},
	{"Two nodes die while the lock is held", []func(*stage){(*stage).loseTwo}},
	{"A hands over", []func(*stage){(*stage).handsOver, (*stage).renews}},
	{"A third node dies: no majority is left", []func(*stage){(*stage).loseThird, (*stage).ends}},
	{"The nodes come back, and three lose their memory while the lock is held", []func(*stage){
		(*stage).comeBack, (*stage).takes, (*stage).forget, (*stage).isKeptOut, (*stage).waits, (*stage).heals, (*stage).outlives, (*stage).finish,
	}},
}

func (s *stage) introduce() {
	s.tellNodes("five new nodes in this process, independent and just opened; a majority, three, decides. TTL %v", ttl)
}

// takes: A acquires the lock.
func (s *stage) takes() {
	began := time.Now()
	lease, err := s.a.RedLock(name).TryAcquire(s.ctx)
	s.succeeds("A gets the free lock", err)
	took := time.Since(began)
	s.granted(s.a, lease)
	s.a.tell("takes %q in %v, valid for %v unless renewed; its token is %d", name, text.Rounded(took), text.Rounded(lease.Remaining()), lease.Token())
	s.eventually("all nodes back A's lease", func() bool { return backing(lease) == total })
	s.a.tell("all %d nodes back the lease", total)
}

// granted keeps the next lease of the lock. Its token must be larger than the tokens of all earlier leases.
func (s *stage) granted(holder *actor, lease *quorumlock.Lease) {
	token := lease.Token()
	for _, before := range s.tokens {
		s.expect("tokens grow", token > before, fmt.Errorf("%d follows %d", token, before))
	}
	s.tokens, s.holder, s.held = append(s.tokens, token), holder, lease
}

// isRefused: B learns that A has the lock.
func (s *stage) isRefused() {
	_, err := s.b.RedLock(name).TryAcquire(s.ctx)
	var by *quorumlock.HeldError
	s.expect("B is told that A holds the lock", errors.As(err, &by) && by.Owner == s.held.Owner(), err)
	s.b.tell("is refused: held by %.6s…, which is A, for another %v unless renewed", by.Owner, text.Rounded(by.TTL))
}

func (s *stage) waits() {
	waiting := make(chan granted, 1)
	go func() {
		lease, err := s.b.RedLock(name).Acquire(s.ctx)
		waiting <- granted{lease, time.Now(), err}
	}()
	s.waiting = waiting
	s.b.tell("waits")
}

func (s *stage) stillWaits() {
	select {
	case got := <-s.waiting:
		s.expect("B still waits", false, got.err)
	default:
	}
}

// renews waits for the next renewal of the lease, and prints it. Nodes that are stopped may still back the lease.
func (s *stage) renews() {
	var e quorumlock.RenewalEvent
	for e.Owner != s.held.Owner() {
		e = receive(s, s.holder.renewed, "the holder renews")
	}
	have := backing(s.held)
	said := fmt.Sprintf("%d of %d nodes", have, total)
	if before := have - (total - s.stopped); before > 0 {
		said += fmt.Sprintf(" (%d by what they confirmed before)", before)
	}
	s.holder.tell("renews: valid for another %v, backed by %s", text.Rounded(e.Remaining), said)
}

// loseTwo: the lease survives the loss of two nodes.
func (s *stage) loseTwo() {
	s.stop(4, 5)
	s.tellNodes("their last confirmation counts until its TTL is over")
	for backing(s.held) > 3 {
		s.renews()
	}
	s.expect("A's lease lives on with 3 nodes", backing(s.held) == 3 && s.held.Err() == nil, s.held.Err())
	s.stillWaits()
	s.a.tell("still holds %q, B still waits: three of five are enough", name)
}

// handsOver: A releases, B acquires.
func (s *stage) handsOver() {
	released := time.Now()
	s.succeeds("A's release is confirmed", s.held.Release(s.ctx))
	s.a.tell("releases the lock, and %d nodes confirm it", 3)
	s.handOver = s.gets().Sub(released)
	s.expect("B gets the lock after A's release", s.handOver > 0, nil)
	s.b.tell("has it %v after A let go, backed by %d of %d nodes; its token is %d, which is larger", text.Rounded(s.handOver), backing(s.held), total, s.held.Token())
}

// gets waits for the lease that B waits for, and returns the time of the grant.
func (s *stage) gets() time.Time {
	got := receive(s, s.waiting, "B gets the lock")
	s.succeeds("B gets the lock", got.err)
	s.granted(s.b, got.lease)
	return got.at
}

// loseThird: without a majority, B cannot renew.
func (s *stage) loseThird() {
	s.stop(3)
	failed := receive(s, s.b.failed, "B's renewal fails")
	s.expect("B cannot renew for three nodes", slices.Equal(silent(failed.Err), []string{"node-3", "node-4", "node-5"}), failed.Err)
	s.b.tell("cannot renew, as node-3, node-4 and node-5 do not answer, and tries again in the %v that are left", text.Rounded(failed.Remaining))
}

// ends: the lease of B ends before its keys expire. No renewal moves the end any more: nodes 4 and 5 do not have the
// lock, and node 3 does not answer.
func (s *stage) ends() {
	until := time.Now().Add(s.held.Remaining())
	keyGone := make(chan time.Time, 1)
	go func() {
		for len(s.nodes[2].Keys()) > 0 {
			if s.ctx.Err() != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
		keyGone <- time.Now()
	}()
	receive(s, s.held.Context().Done(), "B's lease ends")
	var lost *quorumlock.LostError
	s.expect("B's lease is lost", errors.As(s.held.Err(), &lost), s.held.Err())
	s.b.tell("lost the lease, and its context ended %v after the time: %s", text.Rounded(time.Since(until)), lost.Reason)
	s.early = receive(s, keyGone, "the key of node-3 runs out").Sub(until)
	s.expect("the lease ends before the key", s.early > 0, nil)
	s.tellNodes("node-3 kept its key for B %v longer than the lease lasted: the holder knows first", text.Rounded(s.early))
	err := s.held.Release(s.ctx)
	s.expect("a release tells B that the lease was lost", errors.Is(err, quorumlock.ErrLost), err)
}

// comeBack: A asks all nodes again.
func (s *stage) comeBack() {
	s.start(3, 4, 5)
	s.eventually("A sees all nodes answer", func() bool {
		status, err := s.a.RedLock(name).Inspect(s.ctx)
		failed := func(n quorumlock.NodeStatus) bool { return n.Err != nil }
		return err == nil && !slices.ContainsFunc(status.Nodes, failed)
	})
}

// forgetful are the nodes that lose their memory: a majority.
var forgetful = []int{1, 2, 3}

// forget: a majority loses its memory while A holds the lock.
func (s *stage) forget() {
	for _, n := range forgetful {
		m := s.nodes[n-1]
		m.Crash()
		s.expect(m.Name()+" has forgotten everything", len(m.Keys()) == 0, nil)
	}
	s.tellNodes("%s restart with an empty memory: a majority has forgotten A's lock", s.names(forgetful))
}

// isKeptOut: the nodes that forgot A's lock do not give it to B.
func (s *stage) isKeptOut() {
	_, err := s.b.RedLock(name).TryAcquire(s.ctx)
	s.expect("B is refused", errors.Is(err, quorumlock.ErrHeld) || errors.Is(err, quorumlock.ErrNoQuorum), err)
	nodes, left := s.recovering()
	s.expect("three nodes know that they have forgotten something", slices.Equal(nodes, forgetful), nil)
	s.b.tell("is refused all the same: the three know that they have forgotten something, and give no locks for %v", text.Rounded(left))
}

// heals: A's next renewal puts the lock back on the nodes that forgot it.
func (s *stage) heals() {
	for _, n := range forgetful {
		m := s.nodes[n-1]
		s.eventually(m.Name()+" has the lock again", func() bool { return slices.Equal(m.Keys(), []string{name}) })
	}
	nodes, _ := s.recovering()
	s.expect("the nodes take A's renewal while they recover", slices.Equal(nodes, forgetful), s.held.Err())
	s.a.tell("renews, which puts the lock back on %s: holders may keep theirs", s.names(forgetful))
}

// outlives: the recovery is longer than a lease without renewal, and two nodes alone could not have renewed A's
// lease.
func (s *stage) outlives() {
	for nodes, _ := s.recovering(); len(nodes) > 0; nodes, _ = s.recovering() {
		s.renews()
	}
	status, err := s.a.RedLock(name).Inspect(s.ctx)
	s.expect("A's lease lives on, backed by all nodes",
		err == nil && s.held.Err() == nil && status.Holder() == s.held.Owner() && backing(s.held) == total, errors.Join(err, s.held.Err()))
	s.stillWaits()
	s.tellNodes("%s give locks again: everything that they may have forgotten has expired", s.names(forgetful))
	s.a.tell("still holds %q, backed by all %d nodes, and B still waits", name, total)
}

// finish: A releases, and B has the lock at last.
func (s *stage) finish() {
	s.succeeds("A's release is confirmed", s.held.Release(s.ctx))
	s.a.tell("releases the lock")
	s.gets()
	s.b.tell("has it; its token is %d, the largest of all %d", s.held.Token(), len(s.tokens))
	s.succeeds("B's release is confirmed", s.held.Release(s.ctx))
}

// recovering returns the numbers of the nodes that grant no new locks, and how long that lasts.
func (s *stage) recovering() (numbers []int, left time.Duration) {
	status, err := s.b.RedLock(name).Inspect(s.ctx)
	s.succeeds("all nodes answer", err)
	for i, n := range status.Nodes {
		if n.Recovering > 0 {
			numbers, left = append(numbers, i+1), max(left, n.Recovering)
		}
	}
	return numbers, left
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
