// Package history keeps what the clients of locks did and when, and decides whether a
// lock with expiry and fencing tokens explains it.
//
// # Writing
//
// Each client process has a [Recorder], which appends a line of JSON to a file of its own
// for everything that begins or ends:
//
//	r, err := history.Create(dir, "c1")
//	attempt := r.Acquire(worker, "job")
//	lease, err := client.RedLock("job").Acquire(ctx)
//	if err != nil {
//		attempt.Failed(err)
//		return err
//	}
//	held := attempt.Granted(lease.Owner(), lease.Token())
//	err = held.Act(lease.Err)
//	err = held.Release(func() error { return lease.Release(ctx) })
//
// Times are those of clock.System, which all processes of one machine share and nobody
// sets: CLOCK_BOOTTIME on Linux, and what counts the time since boot on macOS and Windows.
// Elsewhere it counts from the start of the process, and only the history of a single
// process means anything. Containers see the clock of their host, unless they were given a
// time namespace with an offset.
//
// A process that is killed loses nothing that it had recorded, and leaves at most a torn
// last line. Every beginning of a file is a sound history of its own: what is missing
// only proves less. Nested leases must not be recorded: they share the token of the lease
// around them, which would look like a token given twice.
//
// # Checking
//
// [Read] and [ReadDir] make a [History] of the files, and [Check] decides about it, for
// each name on its own. What the events prove about a lease:
//
//   - It was granted at an instant within its acquisition, between call and return.
//   - An act says that its client saw it valid at an instant between call and return, and
//     so it did not end before the call. How much later is not known.
//   - A release that succeeded says the same (Release returns nil only if the lease had
//     not ended by itself), and that the lease has ended by the time of its return.
//   - A release that failed may have happened. The lease may have ended before the call;
//     by the return it has ended for its client, who can act on it no more.
//   - A loss that was seen, and an act that was refused, say that it has ended by then.
//   - Otherwise its end is not known, and may never come.
//
// An acquisition that failed proves nothing. A lock may refuse for reasons that are no
// holder's: too few nodes answered, votes were split, a node recovers. One that has no
// return may have been granted, but nobody can have acted on it, so it proves nothing
// either. The same goes for an act without a return.
//
// The model of a name is its holder and the largest token so far. A grant needs that there
// is no holder, and a token larger than all before; an act needs that its lease holds;
// the end of a lease needs the same. Every lease has one end, within the bounds that
// follow from the above. Porcupine searches for instants that fit. Plain comparisons,
// which say in words what is wrong, are made besides; both have to agree that the history
// is legal.
//
// A lease of several names is checked for each of them, as though it could be granted at
// another instant for each. What only follows from several names together is not found.
package history
