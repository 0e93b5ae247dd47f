// Package election has one of several processes lead: the commonest use of a lock, with
// what is easily forgotten.
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
// A candidate stands in line for the lock of the election. Once it has it, its function is
// called, with a context that ends when the lead may no longer be assumed, and with the
// fencing token of the term. When the function has returned, the lock is released, the next
// in line is woken at once, and the candidate stands again, at the end of the line.
//
// # What is guaranteed
//
//   - The contexts of two leaders never live at the same time, under the assumptions of
//     package quorumlock, as far as their Err tells: that looks at the clock, so a process that was
//     frozen finds its context ended before it does anything else, if it asks. Done, and contexts that
//     are derived from it, follow when the process gets round to it.
//   - Whoever leads later has a larger token.
//   - In one [Election] the function never runs twice at once: while it has not returned, this
//     candidate does not stand. What goes on for longer than Config.Grace after the end of its
//     context is reported.
//   - A leader that resigns, or whose Run is told to end, keeps the lock until its function has
//     returned. So functions overlap only after a loss, and only if the former one ignores
//     its context, or was frozen.
//
// What is not: that a function has stopped when its context has ended. Where two would do
// damage, have what they write to check [Term.Token], with package fence.
package election
