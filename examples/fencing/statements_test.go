package main

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/fence"
)

// The inserting statements from the documentation of package fence, in SQLite's dialect. Those that update are in
// table.go.
const (
	upsertAccount = `INSERT INTO accounts (id, balance, token) VALUES (?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token
		WHERE excluded.token >= accounts.token`
	upsertFence = `INSERT INTO fences (name, token) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET token = excluded.token
		WHERE excluded.token >= fences.token`
)

// attempts run one after the other, against a row that does not exist at first.
var attempts = []struct {
	token uint64
	want  error
}{
	{5, nil},
	{5, nil}, // changes nothing, and is admitted
	{4, fence.ErrStale},
	{6, nil},
	{5, fence.ErrStale},
	{0, fence.ErrNoToken},
	{6, nil},
}

func TestUpsertOfTheRowItself(t *testing.T) {
	db := tell(t).db
	for _, a := range attempts {
		err := fence.Check(db.ExecContext(t.Context(), upsertAccount, "account-12", 70, fence.SQL(a.token)))
		require.ErrorIs(t, err, a.want, "token %d", a.token)
	}
	var token uint64
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT token FROM accounts WHERE id = 'account-12'").Scan(&token))
	require.EqualValues(t, 6, token)
}

func TestFenceOfATransaction(t *testing.T) {
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

// moveAll stands for work on several rows: only its first statement compares the token.
func moveAll(t *testing.T, db *sql.DB, token uint64, balance int) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	if err := fence.Check(tx.ExecContext(t.Context(), upsertFence, account, fence.SQL(token))); err != nil {
		return err
	}
	if _, err := tx.ExecContext(t.Context(), "UPDATE accounts SET balance = ?", balance); err != nil {
		return err
	}
	return tx.Commit()
}
