package main

import (
	"context"
	"database/sql"
	"errors"

	_ "modernc.org/sqlite" // the engine, within the process

	"github.com/quorumlock/quorumlock/fence"
)

// account is the row of the story, and the name of the lock that guards it.
const account = "account-7"

// table is a holder's access to the balance.
type table interface {
	read(ctx context.Context, token uint64) (balance int, err error)
	write(ctx context.Context, token uint64, balance int) error
}

// plainTable accepts every write.
type plainTable struct{ db *sql.DB }

func (t plainTable) read(ctx context.Context, _ uint64) (balance int, err error) {
	err = t.db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = ?", account).Scan(&balance)
	return balance, err
}

func (t plainTable) write(ctx context.Context, _ uint64, balance int) error {
	_, err := t.db.ExecContext(ctx, "UPDATE accounts SET balance = ? WHERE id = ?", balance, account)
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
		fence.SQL(token), account, fence.SQL(token)).Scan(&balance)
	if errors.Is(err, sql.ErrNoRows) {
		err = t.explain(ctx, token)
	}
	return balance, err
}

// write compares and writes in one statement. Two statements would leave room for another pause.
func (t fencedTable) write(ctx context.Context, token uint64, balance int) error {
	err := fence.Check(t.db.ExecContext(ctx,
		"UPDATE accounts SET balance = ?, token = ? WHERE id = ? AND token <= ?",
		balance, fence.SQL(token), account, fence.SQL(token)))
	if errors.Is(err, fence.ErrStale) {
		err = t.explain(ctx, token)
	}
	return err
}

// explain distinguishes a stale token from a missing row.
func (t fencedTable) explain(ctx context.Context, token uint64) error {
	return fence.Explain(token, t.db.QueryRowContext(ctx, "SELECT token FROM accounts WHERE id = ?", account))
}

// openTable makes the table, with one account.
func openTable(ctx context.Context) (*sql.DB, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection to :memory: is a database of its own
	_, err = db.ExecContext(ctx, `
		CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL, token BIGINT NOT NULL);
		INSERT INTO accounts (id, balance, token) VALUES (?, 100, 0)`, account)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// row is the table's row of the account.
type row struct {
	balance int
	token   uint64
}

func readRow(ctx context.Context, db *sql.DB) (r row, err error) {
	err = db.QueryRowContext(ctx, "SELECT balance, token FROM accounts WHERE id = ?", account).Scan(&r.balance, &r.token)
	return r, err
}
