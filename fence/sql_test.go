package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/quorumlock/fence"
)

// These tests use a fake database: see fake_test.go. The tests in examples/fencing run the statements of the package
// documentation against a real one.

func ExampleCheck() {
	db := sql.OpenDB(&fakeDB{}) // It accepts any token that is not smaller than the last one.
	defer func() { _ = db.Close() }()
	ctx := context.Background()

	setBalance := func(token uint64, id string, balance int) error {
		err := fence.Check(db.ExecContext(ctx,
			"UPDATE accounts SET balance = ?, token = ? WHERE id = ? AND token <= ?",
			balance, fence.SQL(token), id, fence.SQL(token)))
		if errors.Is(err, fence.ErrStale) {
			err = fence.Explain(token, db.QueryRowContext(ctx, "SELECT token FROM accounts WHERE id = ?", id))
		}
		return err
	}

	fmt.Println(setBalance(34, "account-7", 150))
	fmt.Println(setBalance(33, "account-7", 110))
	// Output:
	// <nil>
	// fence: token 33 is stale: the largest seen is 34
}

func TestCheck(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name   string
		result sql.Result
		err    error
		want   error
	}{
		{"one row", driver.RowsAffected(1), nil, nil},
		{"more rows, as MySQL counts an upsert", driver.RowsAffected(2), nil, nil},
		{"no row", driver.RowsAffected(0), nil, fence.ErrStale},
		{"a failed statement", nil, broken, broken},
		{"a failed statement with a result", driver.RowsAffected(0), broken, broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorIs(t, fence.Check(c.result, c.err), c.want)
			require.NotErrorIs(t, fence.Check(c.result, c.err), fence.ErrNoToken)
		})
	}
	t.Run("a driver without row counts", func(t *testing.T) {
		err := fence.Check(driver.ResultNoRows, nil)
		require.Error(t, err, "the row may not have been written")
		require.NotErrorIs(t, err, fence.ErrStale, "the row may have been written")
	})
	t.Run("the error mentions a missing row", func(t *testing.T) {
		require.ErrorContains(t, fence.Check(driver.RowsAffected(0), nil), "or the row does not exist")
	})
}

func TestExplain(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name  string
		fake  fakeDB
		stale bool
		is    error
		says  string
	}{
		{"stale", fakeDB{token: int64(8)}, true, fence.ErrStale, "token 7 is stale: the largest seen is 8"},
		{"missing", fakeDB{missing: true}, false, sql.ErrNoRows, "the row does not exist"},
		{"failed", fakeDB{err: broken}, false, broken, "cannot be read"},
		{"equal", fakeDB{token: int64(7)}, false, nil, "must compare with <="},
		{"smaller", fakeDB{token: int64(6)}, false, nil, "another condition"},
		{"null", fakeDB{}, false, nil, "cannot be read"},
		{"negative", fakeDB{token: int64(-1)}, false, nil, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := sql.OpenDB(&c.fake)
			defer func() { _ = db.Close() }()
			err := fence.Explain(7, db.QueryRowContext(t.Context(), "SELECT token"))
			require.ErrorContains(t, err, c.says)
			assert.Equal(t, c.stale, errors.Is(err, fence.ErrStale))
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
		})
	}
	t.Run("without a token", func(t *testing.T) {
		db := sql.OpenDB(&fakeDB{token: int64(8)})
		defer func() { _ = db.Close() }()
		require.ErrorIs(t, fence.Explain(0, db.QueryRowContext(t.Context(), "SELECT token")), fence.ErrNoToken)
	})
}

func TestSQL(t *testing.T) {
	for _, token := range []uint64{1, 1_753_900_000_000_000, math.MaxInt64} {
		value, err := fence.SQL(token).Value()
		require.NoError(t, err)
		assert.EqualValues(t, token, value)
		assert.True(t, driver.IsValue(value), "%T needs no conversion for drivers", value)
	}
	_, err := fence.SQL(math.MaxInt64 + 1).Value()
	require.ErrorContains(t, err, "BIGINT")

	fake := &fakeDB{token: int64(0)}
	db := sql.OpenDB(fake)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), "UPDATE", 1, fence.SQL(0))
	require.ErrorIs(t, err, fence.ErrNoToken)
	assert.Zero(t, fake.statements, "a statement without a token must not be sent")
}
