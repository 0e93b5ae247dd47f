package main

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/fence"
)

// These are the INSERT statements from the documentation of package fence, for SQLite. The UPDATE statements are in
// table.go.
const (
	upsertAccount = `INSERT INTO accounts (id, balance, token) VALUES (?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token
		WHERE excluded.token >= accounts.token`
	upsertFence = `INSERT INTO fences (name, token) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET token = excluded.token
		WHERE excluded.token >= fences.token`
)

// attempts lists tokens in the order of the writes, and their results. The row does not exist before the first one.
var attempts = []struct {
	token uint64
	want  error
}{
	{5, nil},
	{5, nil}, // An equal token is admitted.
	{4, fence.ErrStale},
	{6, nil},
	{5, fence.ErrStale},
	{0, fence.ErrNoToken},
	{6, nil},
}

func TestUpsertChecksTheToken(t *testing.T) {
	db := tell(t).db
	for _, a := range attempts {
		err := fence.Check(db.ExecContext(t.Context(), upsertAccount, "account-12", 70, fence.SQL(a.token)))
		require.ErrorIs(t, err, a.want, "token %d", a.token)
	}
	var token uint64
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT token FROM accounts WHERE id = 'account-12'").Scan(&token))
	require.EqualValues(t, 6, token)
}

func TestTransactionChecksTheToken(t *testing.T) {
	db := tell(t).db
	_, err := db.ExecContext(t.Context(), "CREATE TABLE fences (name TEXT PRIMARY KEY, token BIGINT NOT NULL)")
	require.NoError(t, err)
	for i, a := range attempts {
		require.ErrorIs(t, moveAll(t, db, a.token, i), a.want, "token %d", a.token)
		var balance int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT balance FROM accounts").Scan(&balance))
		require.Equal(t, a.want == nil, balance == i, "token %d", a.token)
	}
}

// moveAll is a transaction on several rows. Only its first statement compares the token.
func moveAll(t *testing.T, db *sql.DB, token uint64, balance int) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	if err := fence.Check(tx.ExecContext(t.Context(), upsertFence, id, fence.SQL(token))); err != nil {
		return err
	}
	if _, err := tx.ExecContext(t.Context(), "UPDATE accounts SET balance = ?", balance); err != nil {
		return err
	}
	return tx.Commit()
}
