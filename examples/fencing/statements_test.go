// Package fencing tests the statements of package fence for SQLite, and the story of README.md.
package fencing

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the engine, within the process

	"github.com/quorumlock/quorumlock/fence"
)

// id is that of the account, and the name of the lock that guards it.
const id = "account-7"

// These are the statements from the documentation of package fence.
const (
	update        = `UPDATE accounts SET balance = ?, token = ? WHERE id = ? AND token <= ?`
	read          = `UPDATE accounts SET token = ? WHERE id = ? AND token <= ? RETURNING balance`
	upsertAccount = `INSERT INTO accounts (id, balance, token) VALUES (?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token
		WHERE excluded.token >= accounts.token`
	upsertFence = `INSERT INTO fences (name, token) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET token = excluded.token
		WHERE excluded.token >= fences.token`
)

// accounts is a table with one account, which has 100.
type accounts struct {
	*sql.DB
	t *testing.T
}

func openAccounts(t *testing.T) accounts {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1) // each connection to :memory: is a database of its own
	for _, statement := range []string{
		"CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL, token BIGINT NOT NULL)",
		"INSERT INTO accounts VALUES ('" + id + "', 100, 0)",
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	return accounts{db, t}
}

// read is a read before a write that depends on it. It shows the token.
func (a accounts) read(token uint64) (balance int, err error) {
	err = a.QueryRowContext(a.t.Context(), read, fence.SQL(token), id, fence.SQL(token)).Scan(&balance)
	return balance, err
}

func (a accounts) write(token uint64, balance int) error {
	return fence.Check(a.ExecContext(a.t.Context(), update, balance, fence.SQL(token), id, fence.SQL(token)))
}

// explain distinguishes a stale token from a missing row.
func (a accounts) explain(token uint64) error {
	return fence.Explain(token, a.QueryRowContext(a.t.Context(), "SELECT token FROM accounts WHERE id = ?", id))
}

func (a accounts) requireBalance(balance int) {
	a.t.Helper()
	var stored int
	require.NoError(a.t, a.QueryRowContext(a.t.Context(), "SELECT balance FROM accounts").Scan(&stored))
	require.Equal(a.t, balance, stored)
}

// TestLateWriteIsRefused: alice, with token 1, is paused between her read and her write. Bob gets the lock with token 2.
func TestLateWriteIsRefused(t *testing.T) {
	for name, deposits := range map[string]func(a accounts) error{
		"after bob's deposit": func(a accounts) error { return a.write(2, 150) },
		// Otherwise the table would accept her write, and bob would overwrite it.
		"after his read, before his write": func(accounts) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			a := openAccounts(t)
			balance, err := a.read(1)
			require.NoError(t, err)
			require.Equal(t, 100, balance)
			_, err = a.read(2)
			require.NoError(t, err)
			require.NoError(t, deposits(a))
			require.ErrorIs(t, a.write(1, balance+10), fence.ErrStale)
			require.ErrorIs(t, a.explain(1), fence.ErrStale)
			_, err = a.read(1)
			require.ErrorIs(t, err, sql.ErrNoRows)
			require.NoError(t, a.write(2, 150))
			a.requireBalance(150)
		})
	}
}

func TestMissingAccountIsNotStale(t *testing.T) {
	a := openAccounts(t)
	_, err := a.ExecContext(t.Context(), "DELETE FROM accounts")
	require.NoError(t, err)
	require.ErrorIs(t, a.write(1, 110), fence.ErrStale, "the statement cannot tell")
	err = a.explain(1)
	require.ErrorContains(t, err, "does not exist")
	require.NotErrorIs(t, err, fence.ErrStale)
}

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
	a := openAccounts(t)
	for _, tried := range attempts {
		err := fence.Check(a.ExecContext(t.Context(), upsertAccount, "account-12", 70, fence.SQL(tried.token)))
		require.ErrorIs(t, err, tried.want, "token %d", tried.token)
	}
	var token uint64
	require.NoError(t, a.QueryRowContext(t.Context(), "SELECT token FROM accounts WHERE id = 'account-12'").Scan(&token))
	require.EqualValues(t, 6, token)
}

func TestTransactionChecksTheToken(t *testing.T) {
	a := openAccounts(t)
	_, err := a.ExecContext(t.Context(), "CREATE TABLE fences (name TEXT PRIMARY KEY, token BIGINT NOT NULL)")
	require.NoError(t, err)
	balance := 100
	for i, tried := range attempts {
		require.ErrorIs(t, a.moveAll(tried.token, i), tried.want, "token %d", tried.token)
		if tried.want == nil {
			balance = i
		}
		a.requireBalance(balance)
	}
}

// moveAll is a transaction on several rows. Only its first statement compares the token.
func (a accounts) moveAll(token uint64, balance int) error {
	tx, err := a.BeginTx(a.t.Context(), nil)
	require.NoError(a.t, err)
	defer func() { _ = tx.Rollback() }()
	if err := fence.Check(tx.ExecContext(a.t.Context(), upsertFence, id, fence.SQL(token))); err != nil {
		return err
	}
	if _, err := tx.ExecContext(a.t.Context(), "UPDATE accounts SET balance = ?", balance); err != nil {
		return err
	}
	return tx.Commit()
}
