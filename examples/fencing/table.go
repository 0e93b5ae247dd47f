package main

import (
	"context"
	"database/sql"
	"errors"

	_ "modernc.org/sqlite" // the engine, within the process

	"github.com/quorumlock/quorumlock/fence"
)

// id is that of the account, and the name of the lock that guards it.
const id = "account-7"

// table is a holder's access to the balance.
type table interface {
	read(ctx context.Context, token uint64) (balance int, err error)
	write(ctx context.Context, token uint64, balance int) error
}

// plainTable accepts every write.
type plainTable struct{ db *sql.DB }

func (t plainTable) read(ctx context.Context, _ uint64) (balance int, err error) {
	err = t.db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = ?", id).Scan(&balance)
	return balance, err
}

func (t plainTable) write(ctx context.Context, _ uint64, balance int) error {
	_, err := t.db.ExecContext(ctx, "UPDATE accounts SET balance = ? WHERE id = ?", balance, id)
	return err
}

// fencedTable refuses tokens that are smaller than the largest seen. It is the same table; only the statements
// differ.
type fencedTable struct{ db *sql.DB }

// read shows the token. From then on, no holder with an older token can write. So the value stays current until this
// holder or a later one writes.
func (t fencedTable) read(ctx context.Context, token uint64) (balance int, err error) {
	err = t.db.QueryRowContext(ctx,
		"UPDATE accounts SET token = ? WHERE id = ? AND token <= ? RETURNING balance",
		fence.SQL(token), id, fence.SQL(token)).Scan(&balance)
	if errors.Is(err, sql.ErrNoRows) {
		err = t.explain(ctx, token)
	}
	return balance, err
}

// write compares and writes in one statement. Two statements would leave room for another pause.
func (t fencedTable) write(ctx context.Context, token uint64, balance int) error {
	err := fence.Check(t.db.ExecContext(ctx,
		"UPDATE accounts SET balance = ?, token = ? WHERE id = ? AND token <= ?",
		balance, fence.SQL(token), id, fence.SQL(token)))
	if errors.Is(err, fence.ErrStale) {
		err = t.explain(ctx, token)
	}
	return err
}

// explain distinguishes a stale token from a missing row.
func (t fencedTable) explain(ctx context.Context, token uint64) error {
	return fence.Explain(token, t.db.QueryRowContext(ctx, "SELECT token FROM accounts WHERE id = ?", id))
}

// account is the table, with its one account.
type account struct{ db *sql.DB }

func openAccount(ctx context.Context) (account, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return account{}, err
	}
	db.SetMaxOpenConns(1) // each connection to :memory: is a database of its own
	a := account{db}
	_, err = db.ExecContext(ctx, "CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL, token BIGINT NOT NULL)")
	return a, errors.Join(err, a.reset(ctx))
}

// reset gives the account 100.
func (a account) reset(ctx context.Context) error {
	_, err := a.db.ExecContext(ctx, "INSERT OR REPLACE INTO accounts (id, balance, token) VALUES (?, 100, 0)", id)
	return err
}

func (a account) stored(ctx context.Context) (balance int, err error) {
	err = a.db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = ?", id).Scan(&balance)
	return balance, err
}
