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

// TestReadRecordsTheToken: alice writes late, after bob has read and before he writes. Without the token of bob's read, the
// table would accept her write, and he would overwrite it.
func TestReadRecordsTheToken(t *testing.T) {
	s := tell(t)
	table := fencedTable{s.db}
	var late error
	err := s.deposit(t.Context(), "alice", table, 10, func(lease *quorumlock.Lease) {
		<-lease.Context().Done()
		assert.NoError(t, s.deposit(t.Context(), "bob", table, 50, func(*quorumlock.Lease) {
			late = table.write(t.Context(), lease.Token(), 110)
		}))
	})
	require.ErrorIs(t, late, fence.ErrStale)
	require.ErrorIs(t, err, fence.ErrStale)
	balance, err := s.stored(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 150, balance)
}

func TestMissingAccountIsNotStale(t *testing.T) {
	s := tell(t)
	_, err := s.db.ExecContext(t.Context(), "DELETE FROM accounts")
	require.NoError(t, err)
	for _, err := range []error{
		fencedTable{s.db}.write(t.Context(), 1, 110),
		s.deposit(t.Context(), "alice", fencedTable{s.db}, 10, nil),
	} {
		require.ErrorContains(t, err, "does not exist")
		require.NotErrorIs(t, err, fence.ErrStale)
	}
}

func tell(t *testing.T) *story {
	t.Helper()
	s, err := newStory(t.Context(), io.Discard)
	require.NoError(t, err)
	t.Cleanup(func() { s.close(t.Context()) })
	return s
}
