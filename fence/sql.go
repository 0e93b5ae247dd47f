package fence

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
)

// SQL is a token as an argument of a statement: fence.SQL(lease.Token()). It is stored as a BIGINT. A statement with the
// token 0 is not sent, and fails with [ErrNoToken], as a row that was never written to would admit it.
type SQL uint64

// Value implements [driver.Valuer].
func (t SQL) Value() (driver.Value, error) {
	switch {
	case t == 0:
		return nil, ErrNoToken
	case t > math.MaxInt64:
		return nil, fmt.Errorf("fence: %d is not the token of a lease: it exceeds a BIGINT", uint64(t))
	default:
		return int64(t), nil
	}
}

// unwritten is Check's error if no row was written. It counts as ErrStale, although Check cannot know whether the row exists.
type unwritten struct{}

func (unwritten) Error() string {
	return "fence: no row was written: the token is stale, or the row does not exist"
}

func (unwritten) Is(target error) bool { return target == ErrStale }

// Check turns the outcome of a statement that compares the token in its WHERE into an error: nil if the statement wrote at
// least one row, an [ErrStale] if it wrote none, and the error of Exec if that failed. Its arguments are the results of
// Exec:
//
//	err := fence.Check(tx.ExecContext(ctx, upsert, name, fence.SQL(token)))
//
// The result is exact if the statement writes a row whenever the token is not stale: it inserts a missing row, and has no
// other condition. After an UPDATE, let [Explain] find the reason. If a statement writes several rows with a token each,
// some of them may have refused it. In that case compare with one row first, in the same transaction. For MySQL see the
// package documentation.
//
// Within a transaction, nothing is certain until the commit has succeeded.
func Check(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	switch rows, err := result.RowsAffected(); {
	case err != nil:
		return fmt.Errorf("fence: the driver does not report whether a row was written: %w", err)
	case rows == 0:
		return unwritten{}
	default:
		return nil
	}
}

// Explain returns the reason why an UPDATE wrote nothing, by the token that its row has now:
//
//	err := fence.Check(db.ExecContext(ctx, "UPDATE ...", ...))
//	if errors.Is(err, fence.ErrStale) {
//		err = fence.Explain(token, db.QueryRowContext(ctx, "SELECT token FROM accounts WHERE id = ?", id))
//	}
//
// It never returns nil. The error is a [*StaleError] if the row has a larger token, [sql.ErrNoRows] if there is no row,
// the query's error if the query failed, and [ErrNoToken] if the token is 0. Otherwise the token is not stale, and the error
// tells what may be wrong with the statement.
//
// Explain does not decide: after a SELECT that shows a smaller token, the row may get a larger one before the next write.
func Explain(token uint64, row *sql.Row) error {
	if token == 0 {
		return ErrNoToken
	}
	var seen uint64
	err := row.Scan(&seen)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("fence: the row does not exist: %w", err)
	case err != nil:
		return fmt.Errorf("fence: the token of the row cannot be read: %w", err)
	case token < seen:
		return &StaleError{Token: token, Seen: seen}
	case token == seen:
		return fmt.Errorf("fence: nothing was written, although the row has the same token %d: "+
			"the statement must compare with <=, not <, and MySQL needs clientFoundRows=true", token)
	default:
		return fmt.Errorf("fence: nothing was written, although token %d is larger than the row's %d: "+
			"the statement has another condition, or the row is new", token, seen)
	}
}
