package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock"
	"github.com/quorumlock/quorumlock/fence"
)

func TestRun(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	assert.Contains(t, out.String(), "The balance is 110: bob's deposit is lost")
	assert.Contains(t, out.String(), "cannot write 110: fence: token")
	assert.Contains(t, out.String(), "The balance is 160: both deposits are in it")
}

// The same scenario has two outcomes: one without fencing, and one with it.
func TestLateDeposit(t *testing.T) {
	for _, c := range []struct {
		name   string
		fenced bool
		want   int
	}{
		{"without tokens, bob's deposit is lost", false, 110},
		{"with tokens, alice's write is refused", true, 150},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := tell(t)
			if !c.fenced {
				require.NoError(t, s.lateDeposit(t.Context(), plainTable{s.db}))
				assert.Equal(t, row{balance: c.want}, stored(t, s))
				return
			}
			err := s.lateDeposit(t.Context(), fencedTable{s.db})
			require.ErrorIs(t, err, fence.ErrStale)
			var stale *fence.StaleError
			require.ErrorAs(t, err, &stale)
			assert.Less(t, stale.Token, stale.Seen)
			assert.Equal(t, row{balance: c.want, token: stale.Seen}, stored(t, s))
		})
	}
}

// TestReadRecordsTheToken: alice writes late, after bob has read and before he writes. Without the token of bob's read, the
// table would accept her write, and he would overwrite it.
func TestReadRecordsTheToken(t *testing.T) {
	s := tell(t)
	table := fencedTable{s.db}
	var late error
	err := s.alice.deposit(t.Context(), table, 10, func(lease *quorumlock.Lease) {
		<-lease.Context().Done()
		assert.NoError(t, s.bob.deposit(t.Context(), table, 50, func(*quorumlock.Lease) {
			late = table.write(t.Context(), lease.Token(), 110)
		}))
	})
	require.ErrorIs(t, late, fence.ErrStale)
	require.ErrorIs(t, err, fence.ErrStale)
	assert.Equal(t, 150, stored(t, s).balance)
}

func TestMissingAccountIsNotStale(t *testing.T) {
	s := tell(t)
	_, err := s.db.ExecContext(t.Context(), "DELETE FROM accounts")
	require.NoError(t, err)
	for _, err := range []error{
		fencedTable{s.db}.write(t.Context(), 1, 110),
		s.alice.deposit(t.Context(), fencedTable{s.db}, 10, nil),
	} {
		require.ErrorContains(t, err, "does not exist")
		require.NotErrorIs(t, err, fence.ErrStale)
	}
}

func TestZeroTokenIsRejected(t *testing.T) {
	s := tell(t)
	require.ErrorIs(t, fencedTable{s.db}.write(t.Context(), 0, 110), fence.ErrNoToken)
	_, err := fencedTable{s.db}.read(t.Context(), 0)
	require.ErrorIs(t, err, fence.ErrNoToken)
	assert.Equal(t, row{balance: 100}, stored(t, s))
}

func tell(t *testing.T) *story {
	t.Helper()
	s, err := newStory(t.Context(), io.Discard)
	require.NoError(t, err)
	t.Cleanup(func() { s.close(t.Context()) })
	return s
}

func stored(t *testing.T, s *story) row {
	t.Helper()
	r, err := readRow(t.Context(), s.db)
	require.NoError(t, err)
	return r
}
