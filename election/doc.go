// Package election elects one of several processes as the leader. This is the most common use of a lock, and this
// package handles the details that are easily forgotten.
//
//	err := election.Run(ctx, client, "scheduler", func(ctx context.Context, term election.Term) error {
//		return schedule(ctx, term.Token) // until ctx ends
//	})
//
// # The life of a candidate
//
//	 ┌─────────────────────── lost ◄──────────────────────┐
//	 ▼                                                    │
//	stands ──── elected ───► leads ──── ctx ends ───► winds up ──┐
//	 ▲                         └─────── returns ─────────────────┤
//	 └──── rests, unless it was lost ◄─── the lock is released ──┘
//
// A candidate waits in the queue for the lock of the election. When it acquires the lock, its function is called. The
// function gets a context that ends when the candidate can no longer rely on its lead, and the fencing token of the
// term. When the function has returned, the lock is released and the next candidate is woken at once. The candidate
// then stands again, at the end of the queue.
//
// # Guarantees
//
//   - The contexts of two leaders never live at the same time, under the assumptions of package
//     quorumlock, as reported by their Err. Err reads the clock, so a process that was frozen finds
//     its context ended when it asks. Done, and contexts derived from it, follow when the process
//     schedules them.
//   - Every later leader has a larger token.
//   - In one [Election] the function never runs twice at once: while it has not returned, this
//     candidate does not stand. A function that continues for longer than Config.Grace after the
//     end of its context is reported.
//   - A leader that resigns, or whose Run is cancelled, keeps the lock until its function has
//     returned. So functions overlap only after a loss, and only if the former one ignores its
//     context, or was frozen.
//
// It is not guaranteed that a function has stopped when its context has ended. Where two leaders would do damage, let
// the resource check [Term.Token], with package fence.
package election
