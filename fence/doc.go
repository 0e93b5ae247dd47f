// Package fence is for what a lock protects: a table, a file, a device, a service. It
// refuses those who once held the lock, and do not any more.
//
// A process can be paused between looking at its lease and writing, for longer than the
// lease lasts. Its write then comes after another holder's, and no lock can prevent it.
// Only what is written to can: each lease has a token, quorumlock's Lease.Token, which
// is larger than those of all earlier leases of the same name. Whoever writes shows the
// token, and what is written to remembers the largest and refuses smaller ones.
//
// Four rules make it work, and everything here is to make them hard to break:
//
//   - The comparison and the write are one step. Between a check and a later write
//     there is room for the pause that all this is about.
//   - Equal tokens are admitted: a holder may write more than once. So a token orders
//     holders, not the writes of one of them.
//   - Show the token before you read what you are going to write back. If the new
//     holder has only read, by a way past the fence, then the old one is still admitted,
//     and its write is overwritten by one that does not know of it.
//   - The largest token is kept as long as what it protects, and with it: not in the
//     memory of a process that restarts, nor in a row that is deleted and comes back.
//
// Tokens of one name can be compared with each other, those of different names cannot:
// a resource is guarded by one lock.
//
// # In a process
//
// A [Gate] stands before what only this process can reach: a device, a file of its own,
// a service that others call with their token.
//
// # In a database
//
// The comparison belongs into the statement that writes, in its WHERE. [SQL] passes the
// token, [Check] turns "nothing was written" into [ErrStale], and [Explain] tells why.
// The column is a BIGINT NOT NULL: tokens are below 2^63, and no token compares with
// NULL. Where the row exists, in all of PostgreSQL, MySQL and SQLite:
//
//	UPDATE accounts SET balance = ?, token = ? WHERE id = ? AND token <= ?
//
// That writes nothing if the token is stale, and also if there is no such row: ask
// Explain which. Where the row may not exist yet, in PostgreSQL and SQLite:
//
//	INSERT INTO accounts (id, balance, token) VALUES (?, ?, ?)
//	ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, token = excluded.token
//	WHERE excluded.token >= accounts.token
//
// A read on which a write will be based shows the token too:
//
//	UPDATE accounts SET token = ? WHERE id = ? AND token <= ? RETURNING balance
//
// For work on several rows or tables, give each lock a row of its own in a table of
// fences, and make this the first statement of every transaction. The row stays locked
// until the end of the transaction, so nothing can come in between; the statements that
// follow need no comparison.
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
