// Package fence protects a resource: a table, a file, a device, a service. It refuses clients that once held the
// lock, and no longer do.
//
// A process can be paused between the check of its lease and a write, for longer than the lease lasts. Its write then
// comes after another holder's, and no lock can prevent that. Only the resource can: each lease has a token,
// quorumlock's Lease.Token, which is larger than the token of every earlier lease of the same name. A writer shows
// its token. The resource remembers the largest token, and refuses smaller ones.
//
// Four rules make it work, and this package makes them hard to break:
//
//   - The comparison and the write are one step. Otherwise, the process can be paused between them.
//   - Equal tokens are admitted: a holder may write more than once. So a token orders holders,
//     not the writes of one of them.
//   - Show the token before you read data that you will modify and write back. If the new holder
//     read past the fence, the old holder would still be admitted. Then the new holder would
//     overwrite that write without knowing of it.
//   - The largest token is kept as long as the resource, and with it: not in the memory of a
//     process that restarts, and not in a row that is deleted and comes back.
//
// Tokens of one name can be compared with each other. Tokens of different names cannot, so one lock guards a
// resource.
//
// # In a process
//
// A [Gate] protects a resource that only this process can reach: a device, a file of its own, or a service that
// others call with their token.
//
// # In a database
//
// The comparison belongs into the WHERE of the statement that writes. [SQL] passes the token, [Check] turns "no row
// was written" into [ErrStale], and [Explain] says why. The column is a BIGINT NOT NULL: tokens are below 2^63, and
// no token compares with NULL. If the row exists, in PostgreSQL, MySQL and SQLite:
//
//	UPDATE accounts SET balance = ?, token = ? WHERE id = ? AND token <= ?
//
// That writes nothing if the token is stale, or if there is no such row; Explain tells which. If the row may not
// exist yet, in PostgreSQL and SQLite:
//
//	INSERT INTO accounts (id, balance, token) VALUES (?, ?, ?)
//	ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token
//	WHERE excluded.token >= accounts.token
//
// A read that precedes a dependent write shows the token too:
//
//	UPDATE accounts SET token = ? WHERE id = ? AND token <= ? RETURNING balance
//
// For work on several rows or tables, give each lock a row of its own in a table of fences. Make this the first
// statement of every transaction. The row stays locked until the end of the transaction, so the following statements
// need no comparison:
//
//	INSERT INTO fences (name, token) VALUES (?, ?)
//	ON CONFLICT (name) DO UPDATE SET token = excluded.token
//	WHERE excluded.token >= fences.token
//
// PostgreSQL writes $1, $2 for the question marks.
//
// MySQL differs in three points. It counts rows that changed, not rows that matched: a
// holder that writes the same values twice changes 0 rows and looks stale. Set
// clientFoundRows=true in the DSN of the driver. Its ON DUPLICATE KEY UPDATE has no
// WHERE, and its count does not tell a refusal from a repetition: create the row with
// INSERT IGNORE and token 0 first, then use UPDATE. And it has no RETURNING: run the
// UPDATE that shows the token, and then a SELECT, in one transaction.
package fence
