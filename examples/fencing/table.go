package main

import (
	"context"
	"database/sql"
	"errors"

	_ "modernc.org/sqlite" // the engine, within the process

	"github.com/quorumlock/quorumlock/fence"
)

// account is the row that all is about, and the name of the lock that guards it.
const account = "account-7"

// table is how holders get at the balance.
type table interface {
	read(ctx context.Context, token uint64) (balance int, err error)
	write(ctx context.Context, token uint64, balance int) error
}

// plainTable takes what comes.
type plainTable struct{ db *sql.DB }

func (t plainTable) read(ctx context.Context, _ uint64) (balance int, err error) {
	err = t.db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = ?", account).Scan(&balance)
	return balance, err
}

func (t plainTable) write(ctx context.Context, _ uint64, balance int) error {
	_, err := t.db.ExecContext(ctx, "UPDATE accounts SET balance = ? WHERE id = ?", balance, account)
	return err
}

// fencedTable refuses everyone whose token is smaller than the largest seen. It is the
// same table: the difference is in the statements.
type fencedTable struct{ db *sql.DB }

// read shows the token, so that from here on nobody with an older one can write: what
// is read stays true until this holder writes, or a later one comes.
func (t fencedTable) read(ctx context.Context, token uint64) (balance int, err error) {
	err = t.db.QueryRowContext(ctx,
		"UPDATE accounts SET token = ? WHERE id = ? AND token <= ? RETURNING balance",
		fence.SQL(token), account, fence.SQL(token)).Scan(&balance)
	if errors.Is(err, sql.ErrNoRows) {
		err = t.explain(ctx, token)
	}
	return balance, err
}

// write compares and writes in one statement: between two there would be room for
// another pause.
func (t fencedTable) write(ctx context.Context, token uint64, balance int) error {
	err := fence.Check(t.db.ExecContext(ctx,
		"UPDATE accounts SET balance = ?, token = ? WHERE id = ? AND token <= ?",
		balance, fence.SQL(token), account, fence.SQL(token)))
	if errors.Is(err, fence.ErrStale) {
		err = t.explain(ctx, token)
	}
	return err
}

// explain tells a stale token from a row that does not exist.
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

// row is what the table has of the account.
type row struct {
	balance int
	token   uint64
}

func readRow(ctx context.Context, db *sql.DB) (r row, err error) {
	err = db.QueryRowContext(ctx, "SELECT balance, token FROM accounts WHERE id = ?", account).Scan(&r.balance, &r.token)
	return r, err
}
