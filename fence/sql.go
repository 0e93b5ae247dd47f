package fence

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
)

// SQL is a token as an argument of a statement: fence.SQL(lease.Token()). It is stored
// as a BIGINT. A statement with the token 0 is not sent, and fails with [ErrNoToken]: a
// row that was never written to would admit it.
type SQL uint64

// Value implements [driver.Valuer].
func (t SQL) Value() (driver.Value, error) {
	switch {
	case t == 0:
		return nil, ErrNoToken
	case t > math.MaxInt64:
		return nil, fmt.Errorf("fence: %d is not the token of a lease: it does not fit into a BIGINT", uint64(t))
	default:
		return int64(t), nil
	}
}

// unwritten is an ErrStale as far as Check can tell: less than Explain.
type unwritten struct{}

func (unwritten) Error() string {
	return "fence: no row was written: the token is stale, unless there is no such row"
}

func (unwritten) Is(target error) bool { return target == ErrStale }

// Check turns the outcome of a statement that compares the token, in its WHERE, into an
// error: nil if it wrote at least one row, an [ErrStale] if it wrote none. It takes what
// Exec returns:
//
//	err := fence.Check(tx.ExecContext(ctx, upsert, name, fence.SQL(token)))
//
// It is exact where the statement writes a row whenever the token is not stale: where it
// inserts a row that is missing, and has no other condition. Of an UPDATE, ask [Explain]
// before you believe it. A statement that writes several rows, each with a token, may
// have been refused by some of them: compare with one row first, in the same
// transaction. For MySQL see the package documentation.
//
// If the transaction is committed later, then only the commit tells whether anything
// was written.
func Check(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	switch rows, err := result.RowsAffected(); {
	case err != nil:
		return fmt.Errorf("fence: the driver does not tell whether anything was written: %w", err)
	case rows == 0:
		return unwritten{}
	default:
		return nil
	}
}

// Explain says why an UPDATE wrote nothing, from the token that its row has now:
//
//	err := fence.Check(db.ExecContext(ctx, "UPDATE ...", ...))
//	if errors.Is(err, fence.ErrStale) {
//		err = fence.Explain(token, db.QueryRowContext(ctx, "SELECT token FROM accounts WHERE id = ?", id))
//	}
//
// It never returns nil. The error is a [*StaleError] if the row has a larger token; a
// [sql.ErrNoRows] if there is no row; that of the query if it failed; and else one that
// says what may be wrong with the statement, as the token is not stale.
//
// It explains, and does not decide: a row that admits a token in a SELECT may have
// another by the time it is written.
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
