package election_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/election"
	"github.com/quorumlock/quorumlock/internal/wire"
)

func TestLeader(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		e, observer := w.candidate("a"), w.candidate("observer")
		_, err := observer.Leader(t.Context())
		require.ErrorIs(t, err, election.ErrNoLeader)
		_, leads := e.Leading()
		require.False(t, leads)

		began := w.Clock.Wall()
		a := start(t, e)
		term := a.leads()
		mine, leads := e.Leading()
		require.True(t, leads)
		require.Equal(t, term.Term, mine)

		leader, err := observer.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, term.Owner, leader.Owner)
		require.Equal(t, term.Token, leader.Token)
		require.Equal(t, "a", leader.Name)
		require.WithinDuration(t, began, leader.Since, time.Second)
		time.Sleep(time.Hour) // The nodes know the token as long as the leader leads.
		later, err := observer.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, leader, later)

		w.Pause(0, 1, 2)
		_, err = observer.Leader(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrNoQuorum)
		w.Resume(0, 1, 2)
	})
}

// TestLeaderTokenDespiteFailedContenders: failed contenders leave larger tokens on a minority of the nodes. Leader reports the
// token of the leader.
func TestLeaderTokenDespiteFailedContenders(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		w.Nodes[0].Stop()
		w.Nodes[1].Stop()
		a := start(t, w.candidate("a"))
		term := a.leads()
		w.Nodes[0].Start()
		w.Nodes[1].Start()
		time.Sleep(time.Millisecond)
		_, err := w.Client().RedLock("office").TryAcquire(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrHeld)
		time.Sleep(5 * time.Second) // The leader renews on these nodes, too.
		leader, err := w.candidate("observer").Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, term.Token, leader.Token)
	})
}

// TestWatchCorrectsTheToken: an acquisition may propose a second, larger token. An observer that saw the first one
// yields the second one, and keeps it while nodes forget it.
func TestWatchCorrectsTheToken(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		propose := func(token uint64, nodes ...int) {
			for _, i := range nodes {
				w.Do(i, wire.Granted, wire.Op{
					Kind: wire.Acquire, Names: []string{"office"}, Owner: "leader:1", TTL: quorumlock.DefaultTTL, Token: token,
				})
			}
		}
		token := uint64(w.Clock.Wall().UnixMicro())
		propose(token, 0, 1, 2, 3, 4)
		o := watch(t, w.candidate("observer"))
		tokenIs := func(token uint64) func(seen) bool {
			return func(s seen) bool { return s.err == nil && s.leader.Owner == "leader:1" && s.leader.Token == token }
		}
		sees(t, o, soon, tokenIs(token))
		propose(token+5, 0, 1, 2)
		sees(t, o, 2*time.Second, tokenIs(token+5))
		for _, i := range []int{0, 1} {
			w.Do(i, wire.Released, wire.Op{Kind: wire.Release, Names: []string{"office"}, Owner: "leader:1"})
		}
		propose(token+3, 0, 1)
		time.Sleep(2 * time.Second)
		propose(token+9, 3, 4) // too few to confirm it
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Empty(t, o)
	})
}

func TestWatch(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		seen := watch(t, w.candidate("observer"))
		require.ErrorIs(t, (<-seen).err, election.ErrNoLeader)
		w.Pause(0, 1, 2)
		time.Sleep(time.Minute)
		require.NotEmpty(t, seen, "nobody leads, and then that is unknown")
		require.ErrorIs(t, (<-seen).err, quorumlock.ErrNoQuorum)
		w.Resume(0, 1, 2)
		require.ErrorIs(t, (<-seen).err, election.ErrNoLeader)
		e := w.candidate("a")
		a := start(t, e)
		former := a.leads()
		s := <-seen
		require.NoError(t, s.err)
		require.Equal(t, former.Owner, s.leader.Owner)
		require.Equal(t, former.Token, s.leader.Token)
		time.Sleep(time.Minute)
		require.Empty(t, seen, "Watch yields nothing while nothing changes")

		b := start(t, w.candidate("b"))
		synctest.Wait()
		require.True(t, e.Resign())
		next := b.leads()
		require.Equal(t, next.Owner, (<-seen).leader.Owner)

		w.Pause(0, 1, 2)
		require.ErrorIs(t, (<-seen).err, quorumlock.ErrNoQuorum)
		w.Resume(0, 1, 2)
		require.NotEmpty(t, (<-seen).leader.Owner)
	})
}

// TestWatchEnds: Watch ends when its caller leaves the loop, and when the client is closed.
func TestWatchEnds(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		for _, err := range w.candidate("observer").Watch(t.Context()) {
			require.ErrorIs(t, err, election.ErrNoLeader)
			break
		}
		closed := w.Client()
		require.NoError(t, closed.Close(t.Context()))
		results := 0
		for _, err := range w.candidateOf(closed, "observer").Watch(t.Context()) {
			require.ErrorIs(t, err, quorumlock.ErrClosed)
			results++
		}
		require.Equal(t, 1, results, "Watch ends after ErrClosed")

		client := w.Client()
		for i := range w.Nodes {
			w.Stop(i)
		}
		var seen []error
		for _, err := range w.candidateOf(client, "observer").Watch(t.Context()) {
			if seen = append(seen, err); len(seen) == 1 {
				go func() { _ = client.Close(t.Context()) }()
			}
		}
		require.Len(t, seen, 2)
		require.ErrorIs(t, seen[0], quorumlock.ErrNoQuorum)
		require.ErrorIs(t, seen[1], quorumlock.ErrClosed, "no leader is known either way, but not for the same reason")
	})
}

// TestCandidateNames: a candidate without a name uses its client's holder.
func TestCandidateNames(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, w *world) {
		client := w.Client(func(cfg *quorumlock.Config) { cfg.Holder = "web-3/4711" })
		e := w.candidateOf(client, "")
		a := start(t, e)
		require.Equal(t, "web-3/4711", a.leads().Name)
		leader, err := e.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "web-3/4711", leader.Name)
		_ = a.stop()

		long := w.candidate(strings.Repeat("x", quorumlock.MaxPurposeLength+1))
		_, err = long.Leader(t.Context())
		require.ErrorIs(t, err, quorumlock.ErrInvalid)
		require.EqualError(t, err, "quorumlock: Name has 129 bytes, more than 128", "the field that was set, not the Purpose that it becomes")
		_, err = w.candidate("a\tb").Leader(t.Context())
		require.EqualError(t, err, `quorumlock: Name "a\tb" has unprintable characters`)
		_, err = w.candidate(strings.Repeat("x", quorumlock.MaxPurposeLength)).Leader(t.Context())
		require.ErrorIs(t, err, election.ErrNoLeader)
	})
}
