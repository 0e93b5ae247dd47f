package fence_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
)

// fakeDB is a database with one row, whose token it compares and returns. It treats every Exec as an UPDATE whose
// last argument is the token, and every query as a SELECT of the token.
type fakeDB struct {
	token      any // int64, or nil for NULL
	missing    bool
	err        error
	statements int
}

func (f *fakeDB) Connect(context.Context) (driver.Conn, error) { return fakeConn{f}, nil }

func (f *fakeDB) Driver() driver.Driver { return nil }

type fakeConn struct{ *fakeDB }

func (fakeConn) Close() error { return nil }

func (fakeConn) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }

func (fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

func (c fakeConn) ExecContext(_ context.Context, _ string, args []driver.NamedValue) (driver.Result, error) {
	c.statements++
	token := args[len(args)-1].Value.(int64)
	if seen, _ := c.token.(int64); token < seen {
		return driver.RowsAffected(0), nil
	}
	c.token = token
	return driver.RowsAffected(1), nil
}

func (c fakeConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	c.statements++
	if c.err != nil {
		return nil, c.err
	}
	return &fakeRows{token: c.token, over: c.missing}, nil
}

type fakeRows struct {
	token any
	over  bool
}

func (*fakeRows) Columns() []string { return []string{"token"} }

func (*fakeRows) Close() error { return nil }

func (r *fakeRows) Next(dest []driver.Value) error {
	if r.over {
		return io.EOF
	}
	r.over, dest[0] = true, r.token
	return nil
}
